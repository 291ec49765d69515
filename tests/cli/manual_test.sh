# The manual, docs/cli.md and the completions, all made from the table of options.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

test_the_reference_is_up_to_date() {
    SAM3=$program "$root/scripts/make-cli-docs" --check >difference 2>&1 || fail "$(head -20 difference)"
}

test_the_manual_has_every_command() {
    run 0 help --man
    local commands
    commands=$("$program" help --markdown | sed -n 's/^### sam3 //p')
    [ "$(wc -l <<<"$commands")" -ge 12 ] || fail "found only: $commands"
    while read -r command; do has stdout "${command//-/\\-}\""; done <<<"$commands"
    command -v groff >/dev/null || return 0
    groff -man -Tutf8 -ww stdout >page 2>complaints
    empty complaints
    [ "$(wc -l <page)" -gt 300 ] || fail "the page is short"
}

test_help_explains_a_command() {
    run 0 help segment
    has stdout "--exemplar"
    run 0 help models pull
    has stdout "REPOSITORY"
    run 2 help nothing
    has stderr "there is no command 'nothing'"
}

# complete WORD...: what bash offers for the last word
complete_words() {
    COMP_WORDS=(sam3 "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _sam3
    printf '%s\n' "${COMPREPLY[@]}"
}

test_bash_completes_commands_options_and_values() {
    "$program" completion bash >script
    # shellcheck disable=SC1091
    source ./script
    complete_words seg >stdout
    [ "$(cat stdout)" = segment ] || fail "no segment"
    complete_words models p >stdout
    [ "$(cat stdout)" = "$(printf 'path\npull')" ] || fail "no path and pull"
    complete_words segment --exem >stdout
    has stdout "--exemplar-point"
    complete_words segment --precision b >stdout
    [ "$(cat stdout)" = bf16 ] || fail "no bf16"
    complete_words segment -f js >stdout
    has stdout "jsonl"
    lacks stdout "mots"
    complete_words segment -f coco,cs >stdout
    [ "$(cat stdout)" = coco,csv ] || fail "no coco,csv"
    complete_words track -f mo >stdout
    [ "$(cat stdout)" = mots ] || fail "no mots for a clip"
    complete_words models pull --end >stdout
    has stdout "--endpoint"
}

test_scripts_of_other_shells_parse() {
    run 0 completion zsh
    has stdout "#compdef sam3"
    has stdout "--exemplar["
    if command -v zsh >/dev/null; then zsh -n stdout || fail "zsh cannot read it"; fi
    run 0 completion fish
    has stdout "-l exemplar"
    if command -v fish >/dev/null; then fish -n stdout || fail "fish cannot read it"; fi
    run 2 completion tcsh
}
