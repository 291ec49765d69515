#!/usr/bin/env bash
# run_case.sh PROGRAM SCRIPT FUNCTION: one test of the program, in an empty folder of its own.
set -euo pipefail
program=$1
export LC_ALL=C
unset SAM3_MODEL SAM3_MODELS
export OMP_WAIT_POLICY=passive  # several tests run at a time: waiting threads must not spin
export SAM3_DEVICE=${SAM3_TEST_DEVICE:-cpu}  # the same on machines with and without a GPU
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "FAILED: $*" >&2
    echo "--- stdout"; head -c 2000 stdout 2>/dev/null || true
    echo "--- stderr"; head -c 2000 stderr 2>/dev/null || true
    exit 1
} >&2

# run CODE ARGUMENT...: runs the program, expects its exit code, leaves files stdout and stderr.
run() {
    local expected=$1 code=0
    shift
    "$program" "$@" >stdout 2>stderr </dev/null || code=$?
    [ "$code" = "$expected" ] || fail "expected exit code $expected, found $code: sam3 $*"
}
# has FILE TEXT, lacks FILE TEXT
has() { grep -qF -- "$2" "$1" || fail "expected '$2' in $1"; }
lacks() { ! grep -qF -- "$2" "$1" || fail "found '$2' in $1"; }
empty() { [ ! -s "$1" ] || fail "expected nothing in $1"; }

# safetensors FILE JSON BYTES: a file with that header and so many zero bytes of data.
safetensors() {
    local length=${#2} i
    for i in 0 8 16 24 32 40 48 56; do printf "\\x$(printf %02x $(((length >> i) & 255)))"; done >"$1"
    printf %s "$2" >>"$1"
    head -c "$3" /dev/zero >>"$1"
}

# shellcheck disable=SC1090
source "$2"
"$3"
