# The program itself: help, version, wrong usage, exit codes.

test_version_is_one_line_on_stdout() {
    run 0 --version
    grep -qxE 'sam3 [0-9]+\.[0-9]+\.[0-9]+' stdout || fail "no version"
    empty stderr
}

test_help_lists_the_commands() {
    run 0 --help
    has stdout "inspect"
    has stdout "doctor"
    has stdout "Exit codes"
    empty stderr
}

test_every_command_has_examples() {
    run 0 --help
    local commands
    commands=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' stdout)
    [ -n "$commands" ] || fail "no commands in the help"
    for command in $commands; do
        run 0 "$command" --help
        has stdout "Examples:"
        has stdout "sam3 $command"
    done
}

test_nothing_prints_the_help_and_is_wrong_usage() {
    run 2
    empty stdout
    has stderr "inspect"
}

test_an_unknown_command_suggests_the_closest() {
    run 2 inspct model.gguf
    has stderr "sam3: error: there is no command 'inspct'"
    has stderr "did you mean 'sam3 inspect'?"
    empty stdout
    run 2 zzzzzz
    has stderr "sam3 --help"
    lacks stderr "did you mean"
}

test_control_characters_of_a_mistake_are_not_repeated() {
    run 2 $'\e[31mred'
    has stderr '\x1b[31mred'
}

test_an_unknown_option_is_wrong_usage() {
    run 2 doctor --colour
    has stderr "sam3: error: "
    has stderr "--colour"
    has stderr "sam3 doctor --help"
    run 2 --colour
    has stderr "sam3: error: "
}

test_a_missing_argument_is_wrong_usage() {
    run 2 inspect
    has stderr "FILE"
    empty stdout
}

test_a_closed_pipe_is_quiet() {
    local codes
    set +e
    "$program" --help 2>stderr | true
    codes="${PIPESTATUS[0]}"
    set -e
    [ "$codes" = 0 ] || fail "exit code $codes"
    empty stderr
}

test_a_full_disk_is_an_error() {
    [ -w /dev/full ] || return 0
    local code=0
    "$program" doctor >/dev/full 2>stderr || code=$?
    [ "$code" = 1 ] || fail "exit code $code"
    has stderr "could not write the results"
}
