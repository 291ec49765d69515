# bench/against-reference with stand-ins for the reference and for the program: no PyTorch, no weights.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# A reference that takes 8, 6 and 10 seconds, and programs that take 2, 3 and 2 (f32) or 1 (int8). Both write into `log`.
make_stand_ins() {
    mkdir model && echo '{}' >model/config.json && touch picture.jpg
    cat >reference <<'PYTHON'
#!/usr/bin/env python3
import json, sys
with open("arguments", "w") as file:
    file.write(" ".join(sys.argv[2:]))
print(json.dumps({"torch": "stand-in"}), flush=True)
seconds = iter([8, 6, 10] * 2)
for line in sys.stdin:
    job = json.loads(line)["job"]
    with open("log", "a") as log:
        log.write(f"reference {job}\n")
    second = next(seconds)
    waits = {"image_phrase": second, "second_phrase": second / 2, "next_click": second / 100}
    print(json.dumps({"seconds": waits, "peak_bytes": 9_000_000_000, "detections": 4}), flush=True)
PYTHON
    cat >program <<'PYTHON'
#!/usr/bin/env python3
import json, sys
precision, task = (sys.argv[sys.argv.index(option) + 1] for option in ("--precision", "--task"))
earlier = open("log").read().splitlines()
with open("log", "a") as log:
    log.write(f"{precision} {task}\n")
seconds = 1 if precision == "int8" else [2, 3, 2][earlier.count(f"{precision} {task}")]
waits = {"image_phrase": seconds, "second_phrase": seconds, "next_click": seconds / 100}
print(json.dumps({"waits": {name: {"median": value} for name, value in waits.items()},
                  "peak_process_bytes": 4_200_000_000, "detections": 4}))
PYTHON
    chmod +x reference program
}

# compare CODE ARGUMENT...: runs the script with the stand-ins.
compare() {
    local expected=$1 code=0
    shift
    "$root/bench/against-reference" --model model --image picture.jpg --python "$PWD/reference" --program "$PWD/program" \
        "$@" >stdout 2>stderr || code=$?
    [ "$code" = "$expected" ] || fail "expected exit code $expected, found $code: against-reference $*"
}

test_reference_and_program_take_turns() {
    make_stand_ins
    compare 0 --tasks text,click --precisions f32,int8 --rounds 2
    printf '%s\n' "reference phrase" "f32 phrase" "int8 phrase" "reference phrase" "f32 phrase" "int8 phrase" \
        "reference click" "f32 click" "int8 click" "reference click" "f32 click" "int8 click" >expected
    cmp -s expected log || fail "the turns were: $(tr '\n' ';' <log)"
    has stderr "phrase, round 2 of 2"
}

test_table_has_medians_of_seconds_and_of_ratios() {
    make_stand_ins
    compare 0 --tasks text,second --precisions f32,int8 --rounds 3
    has stdout "| image and phrase | transformers, f32 | 3 | 8.000 | 1.00 | 9.00 |"
    has stdout "|  | sam3.cpp, f32 | 3 | 2.000 | 4.00 | 4.20 |" # ratios 4, 2, 5
    has stdout "|  | sam3.cpp, int8 | 3 | 1.000 | 8.00 | 4.20 |"
    has stdout "| second phrase, same image | transformers, f32 | 3 | 4.000 | 1.00 | 9.00 |"
    lacks stderr "note:"
}

test_rounds_can_be_added_to_a_file() {
    make_stand_ins
    compare 0 --tasks text --rounds 1 --json out.json
    compare 0 --tasks text --rounds 2 --json out.json --append
    has stdout "transformers, f32 | 3 | 8.000"
    compare 1 --tasks text --rounds 1 --json out.json --append --text other
    has stderr "out.json: was measured with settings"
}

test_the_reference_is_as_its_users_have_it_unless_told() {
    make_stand_ins
    compare 0 --tasks text --rounds 1 --json out.json
    [ -z "$(cat arguments)" ] || fail "the reference was started with: $(cat arguments)"
    compare 0 --tasks text --rounds 1 --tuned
    [ "$(cat arguments)" = --tuned ] || fail "the reference was started with: $(cat arguments)"
    compare 1 --tasks text --rounds 1 --tuned --json out.json --append
    has stderr "out.json: was measured with settings"
    compare 2 --tasks text --plain
}

test_other_numbers_of_detections_are_noted() {
    make_stand_ins
    sed -i 's/"detections": 4/"detections": 5/' program
    compare 0 --tasks text --rounds 1
    has stderr "the reference found 4 objects for the second phrase, the program with f32 5"
}

test_what_is_missing_gives_a_sentence() {
    make_stand_ins
    compare 1 --tasks sam1
    has stderr "--sam1 expects a Hugging Face folder with config.json, found none"
    compare 1 --tasks dance
    has stderr "--tasks expects some of text"
    compare 1 --program absent
    has stderr "absent: there is no program"
    compare 1 --python absent
    has stderr "cannot start the reference"
    compare 1 --python false
    has stderr "the reference ended when it was started with exit code 1"
    compare 1 --tasks video
    has stderr "expected a time of 'video_frame' from transformers"
    printf '#!/bin/sh\nexit 3\n' >program
    compare 1 --tasks text
    has stderr "the program failed with exit code 3"
    printf '#!/bin/sh\necho done\n' >program
    compare 1 --tasks text
    has stderr "expected JSON from the program, found: done"
}
