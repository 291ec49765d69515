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
    has stdout "Usage: sam3 COMMAND"
    has stdout "sam3 segment -m sam3 photo.jpg"
    has stdout "Exit codes"
    empty stderr
}

test_every_command_has_examples() {
    run 0 --help
    local commands
    commands=$(sed -n '/^Examples:/q; s/^  \([a-z][a-z-]*\)  .*/\1/p' stdout)
    [ "$(wc -l <<<"$commands")" -ge 14 ] || fail "only these commands in the help: $commands"
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

test_a_mistyped_option_suggests_the_closest() {
    run 2 segment photo.jpg --txt dog
    has stderr "there is no option '--txt', did you mean --text?; run 'sam3 segment --help'"
    run 2 models pull facebook/sam3 --endpont=x
    has stderr "did you mean --endpoint?; run 'sam3 models pull --help'"
    run 2 segment photo.jpg -m model.gguf --format
    has stderr "--format needs a value; run"
    run 2 everything -m model.gguf a.jpg b.jpg
    has stderr "there is nothing here that takes 'b.jpg'"
}

test_without_a_model_it_says_where_models_come_from() {
    HOME=$PWD HF_HOME=$PWD run 2 segment photo.jpg -t dog
    has stderr "no model was given: name one with -m"
    has stderr "sam3 models pull facebook/sam3"
    mkdir models
    echo >models/shapes.gguf
    HOME=$PWD HF_HOME=$PWD run 2 track clip.mp4 -t dog -o out
    has stderr "found here: shapes"
}

test_a_command_with_commands_of_its_own_lists_them() {
    run 2 models
    empty stdout
    has stderr "models pull"
    has stderr "Usage: sam3 models COMMAND"
}

test_help_fits_the_width_of_a_page() {
    for command in "" segment track everything convert-format bench; do
        # shellcheck disable=SC2086
        run 0 help $command
        # Examples are there to be copied, so they stay in one line.
        sed '/^Examples:/,$d' stdout | awk 'length > 100 { print; bad = 1 } END { exit bad }' >long || fail "too long: $(cat long)"
    done
    command -v script >/dev/null || return 0
    script -qec "stty cols 70; '$program' help segment" typescript >/dev/null </dev/null
    sed '1d; /^Examples:/,$d' typescript | tr -d '\r' | awk 'length > 70 { print; bad = 1 } END { exit bad }' >long ||
        fail "too long for 70 columns: $(cat long)"
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
