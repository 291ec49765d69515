# `sam3 segment` over many pictures: inputs, the journal, resuming, shards.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
scenes=$root/assets

# pictures COUNT: a folder in/ with so many scenes
pictures() {
    mkdir -p in
    local i files=("$scenes"/scene-*.png)
    for ((i = 0; i < $1; i++)); do cp "${files[$((i % ${#files[@]}))]}" "in/$i.png"; done
}
# segment CODE ARGUMENT...: what every test asks for
segment() {
    local code=$1
    shift
    run "$code" segment -m "$model" --image-size 168 -t star -t "pink object" --threshold 0.3 "$@"
}
# finished FOLDER: how many inputs its journal has
finished() { grep -c '"input"' "$1/journal.jsonl" 2>/dev/null || true; }
# until_finished COUNT FOLDER PID: waits until so many are, or the process has ended
until_finished() {
    while kill -0 "$3" 2>/dev/null && [ "$(finished "$2" | grep . || echo 0)" -lt "$1" ]; do sleep 0.01; done
}
same() { diff -r "$1" "$2" >difference || fail "$1 and $2 differ: $(head -3 difference)"; }

test_a_folder_in_natural_order() {
    pictures 12
    echo "no picture" >in/notes.txt
    segment 0 in -o out -f jsonl,csv
    [ "$(grep -o '"file":"[^"]*"' out/results.jsonl | tr '\n' ' ')" = "$(for i in $(seq 0 11); do printf '"file":"in/%s.png" ' "$i"; done)" ] ||
        fail "not in natural order"
    has stdout "in/10.png: "
    has stdout "12 images done"
    empty stderr
}

test_a_run_killed_three_times_equals_an_undisturbed_one() {
    pictures 24
    # All that still images can be written as: files a picture, and files about all of them.
    local formats
    formats=$("$program" help --markdown | sed -n 's/.*separated by commas: \(json.*csv\), none.*/\1/p' | tr -d ' ')
    [[ $formats == *overlay*csv* ]] || fail "no list of formats in --help: '$formats'"
    segment 0 in -o calm -f "$formats"
    local i lines=0 pid
    rough() {
        "$program" segment -m "$model" --image-size 168 -t star -t "pink object" --threshold 0.3 in -o rough -f "$formats" \
            --resume >stdout 2>stderr </dev/null &
        pid=$!
    }
    for i in 1 2 3; do
        rough
        # Kill it when some more are done, wherever it is then.
        until_finished $((lines + 2)) rough "$pid"
        sleep 0.0$((RANDOM % 10))
        kill -9 "$pid" 2>/dev/null || fail "run $i ended by itself"
        wait "$pid" 2>/dev/null || true
        lines=$(finished rough)
        [ ! -e rough/results.jsonl ] || fail "results although the run was killed"
    done
    # Once more while it writes what is about all pictures, where it is not over already.
    rough
    while kill -0 "$pid" 2>/dev/null && [ ! -e rough/yolo ]; do sleep 0.01; done
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    segment 0 in -o rough -f "$formats" --resume
    has stderr "are done already"
    same calm rough
}

test_a_torn_line_is_done_again() {
    pictures 3
    segment 0 in -o out -f jsonl
    cp -r out whole
    truncate -s -20 out/journal.jsonl
    rm out/results.jsonl
    segment 0 in -o out -f jsonl --resume
    same out whole
    mkdir young
    head -c 20 out/journal.jsonl >young/journal.jsonl
    segment 0 in -o young -f jsonl --resume
    same young whole
    sed -i '2s/^/x/' out/journal.jsonl
    segment 1 in -o out -f jsonl --resume
    has stderr "line 2 is not of a journal"
}

test_results_are_kept_unless_told_otherwise() {
    pictures 2
    segment 0 in -o out -f json
    segment 1 in -o out -f json
    has stderr "--resume goes on, --overwrite starts again"
    segment 1 in -o out -f json --resume --top-k 1
    has stderr "other options"
    segment 1 in -o out -f png --resume
    has stderr "other options"
    segment 0 in -o out -f png --overwrite
    [ ! -e out/0.json ] || fail "a file of the replaced run was left"
    segment 0 in -o out -f csv,coco --overwrite
    segment 0 in -o out -f csv --overwrite
    [ ! -e out/coco.json ] && [ -s out/summary.csv ] || fail "a data set of the replaced run was left"
    segment 2 in -o out --overwrite --resume
    segment 2 in --resume
    has stderr "--output"
}

test_pictures_that_come_later_are_added() {
    pictures 3
    segment 0 in -o out -f jsonl
    cp in/0.png in/1b.png
    segment 0 in -o out -f jsonl --resume
    has stdout "1 image done, 3 were done before"
    segment 0 in -o all -f jsonl
    cmp out/results.jsonl all/results.jsonl || fail "not as if all had been there"
}

test_a_bad_picture_is_named_and_skipped() {
    pictures 4
    head -c 300 in/1.png >in/cut.png
    echo "hello" >in/text.jpg
    segment 1 in -o out -f jsonl
    has stderr "failed: in/cut.png"
    has stderr "in/text.jpg: expected a JPEG, PNG or WebP image, found a text file"
    has stderr "2 of 6 inputs failed"
    [ "$(wc -l <out/results.jsonl)" = 4 ] || fail "expected the other four"
    cp in/1.png in/cut.png
    cp in/1.png in/text.jpg
    segment 0 in -o out -f jsonl --resume
    segment 0 in -o calm -f jsonl
    cmp out/results.jsonl calm/results.jsonl || fail "not as if they had been good at once"
}

test_shards_merge_to_a_single_run() {
    pictures 7
    segment 0 in -o single -f jsonl,json,csv
    for i in 1 2 3; do
        segment 0 in -o shared -f jsonl,json,csv --shard $i/3
        segment 0 in -o part$i -f jsonl,json,csv --shard $i/3
    done
    [ ! -e shared/results.jsonl ] || fail "a shard wrote what is about all"
    run 0 merge shared
    same single shared
    run 0 merge joined part1 part2 part3
    same single joined
    run 1 merge joined part1 part2 part3
    has stderr "--overwrite"
    run 1 merge other part1 part2
    has stderr "shard 3/3 is missing"
    run 0 merge other part1 part2 --partial
    [ "$(wc -l <other/results.jsonl)" = 5 ] || fail "expected five of seven"
    sed -i '$d' part3/journal-3-of-3.jsonl
    run 1 merge again part1 part2 part3
    has stderr "has finished 1 of 2 inputs"
    run 1 merge again part1 part1
    has stderr "is also in"
    segment 0 in -o other3 -f jsonl --shard 3/3
    run 1 merge again part1 part2 other3
    has stderr "another job"
    run 1 merge nothing
    has stderr "nothing"
}

test_shards_from_the_environment() {
    pictures 5
    SLURM_ARRAY_TASK_ID=12 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=12 SLURM_ARRAY_TASK_STEP=2 \
        segment 0 in -o out --shard auto --dry-run
    has stdout "shard 2/2 has 2"
    SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 segment 2 in -o out --shard auto
    has stderr "without gaps"
    JOB_COMPLETION_INDEX=0 SAM3_SHARD_COUNT=5 segment 0 in -o out --shard auto --dry-run
    has stdout "shard 1/5 has 1"
    JOB_COMPLETION_INDEX=0 segment 2 in -o out --shard auto
    has stderr "SAM3_SHARD_COUNT"
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 segment 0 in -o out --shard auto --dry-run
    has stdout "shard 2/4"
    PMI_RANK=3 PMI_SIZE=4 segment 0 in -o out --shard auto --dry-run
    has stdout "shard 4/4"
    env -u SLURM_PROCID "$program" segment -m "$model" in -t star -o out --shard auto >stdout 2>stderr && fail "expected a failure"
    has stderr "give --shard I/N"
    for wrong in 0/3 4/3 a/b 3 1/ /2 -1/2 1/99999999999999999999; do segment 2 in -o out --shard $wrong; done
    [ ! -e out ] || fail "a dry run wrote something"
}

test_data_sets_name_pictures_below_their_folder() {
    pictures 2
    mkdir in/sub
    cp in/0.png in/sub/0.png
    segment 0 "$PWD/in" -r -o out -f coco,yolo
    python3 -c '
import json
coco = json.load(open("out/coco.json"))
assert [image["file_name"] for image in coco["images"]] == ["0.png", "1.png", "sub/0.png"], coco["images"]
'
    [ -e out/yolo/data.yaml ] || fail "no data.yaml among $(find out/yolo)"
}

test_a_format_that_cannot_tell_pictures_apart_is_refused_before_the_work() {
    pictures 2
    cp "$scenes/squares.jpg" in/0.jpg
    segment 1 in -o out -f yolo,json
    has stderr "in/0.png: differs from in/0.jpg in its ending only, and the format yolo"
    [ ! -e out ] || fail "work was done"
    segment 0 in -o out -f json
}

test_a_folder_that_cannot_be_is_named_before_the_work() {
    pictures 2
    echo hello >file
    segment 1 in -o file -f json
    has stderr "file: expected a folder to write results into, found a file"
    empty stdout
    segment 1 in/0.png -o file/below
    has stderr "file/below: the folder cannot be made"
}

test_inputs_of_every_kind() {
    pictures 2
    mkdir -p in/sub
    cp in/0.png in/sub/0.png
    segment 0 in -o flat --dry-run
    lacks stdout "sub/0.png"
    segment 0 in -r -o out -f json
    [ -s out/sub/0.json ] && [ -s out/0.json ] || fail "names do not follow the folders"
    segment 0 "in/*.png" "in/s*/0.png" in/0.png -f none
    has stdout "3 images done"
    printf 'in/0.png\nin/1.png\n' | "$program" segment -m "$model" --image-size 168 - -t star -f none >stdout
    has stdout "in/1.png: "
    printf 'in/0.png\0in/sub/0.png\0' | "$program" segment -m "$model" --image-size 168 - -t star -f none >stdout
    has stdout "in/sub/0.png: "
    "$program" segment -m "$model" --image-size 168 - -t star -f json <in/0.png >stdout
    has stdout '"file": "stdin"'
    segment 1 "in/*.gif"
    has stderr "no file matches"
    segment 1 absent -f none
    has stderr "sam3: error: absent: expected a file, found nothing there"
    empty stdout
    segment 1 "$root/assets/clip.mp4" -f none
    has stderr "sam3 track"
    mkdir empty
    segment 1 empty -f none
    has stderr "an empty one"
    run 2 segment -m "$model" -t star
    has stderr "there is no input"
}

test_overlays_go_beside_the_pictures() {
    pictures 2
    segment 0 in/0.png
    [ -s in/0_overlay.png ] || fail "no overlay"
    has stdout "label"
    has stdout "in/0_overlay.png"
    segment 1 in/0.png
    has stderr "--overwrite"
    segment 0 in/0.png --overwrite
    cp "$scenes/squares.jpg" in/0.jpg
    segment 0 in/0.png in/0.jpg
    [ -s in/0.png_overlay.png ] && [ -s in/0.jpg_overlay.png ] || fail "two pictures share an overlay"
    segment 0 in/1.png -f none
    [ ! -e in/1_overlay.png ] || fail "none wrote something"
    segment 0 in --dry-run --overwrite
    lacks stdout "to do    in/0_overlay.png"
}

test_results_never_replace_inputs() {
    pictures 1
    cp in/0.png in/0_overlay.png
    cp in/0.png before.png
    segment 1 in/0.png in/0_overlay.png --overwrite
    has stderr "would replace an input"
    cmp in/0_overlay.png before.png || fail "the input was replaced"
}

test_names_cannot_leave_the_folder() {
    pictures 1
    mkdir -p a/b/out
    cd a/b
    cp ../../in/0.png ../x.png
    segment 0 ../x.png ../../in/0.png -o out -f json
    [ "$(find ../.. -name '*.json' | grep -c '^../../a/b/out/')" = 2 ] && [ "$(find ../.. -name '*.json' | wc -l)" = 2 ] ||
        fail "found $(find ../.. -name '*.json')"
}

test_prompts_for_each_picture() {
    pictures 3
    cat >in/prompts.jsonl <<'END'
{"image": "0.png", "text": ["star", "hexagon"]}
{"image": "1.png", "objects": [{"points": [[100, 100]], "negative_points": [[5, 5]]}, {"box": [10, 10, 80, 80]}]}
{"image": "2.png", "exemplars": [[20, 20, 90, 90]], "text": "ring"}
END
    run 0 segment -m "$model" --image-size 168 --prompts in/prompts.jsonl -o out -f jsonl
    [ "$(grep -o '"label":"hexagon","presence"' out/results.jsonl | wc -l)" = 1 ] || fail "no hexagon was asked for"
    [ "$(sed -n 2p out/results.jsonl | grep -o '"label":"object [01]","presence"' | wc -l)" = 2 ] || fail "expected two objects"
    sed -n 3p out/results.jsonl | grep -q '"label":"ring"' || fail "no ring was asked for"
    echo '{"image": "0.png", "texts": "star"}' >wrong.jsonl
    run 1 segment -m "$model" --prompts wrong.jsonl -o out2
    has stderr "wrong.jsonl: line 1: there is no 'texts' here"
    echo '{"image": "0.png"}' >wrong.jsonl
    run 1 segment -m "$model" --prompts wrong.jsonl -o out2
    has stderr "nothing to look for"
    printf '{"image": "0.png", "text": "a"}\n{"image": "0.png", "text": "b"}\n' >wrong.jsonl
    run 1 segment -m "$model" --prompts wrong.jsonl -o out2
    has stderr "a second line"
    echo 'star' >wrong.jsonl
    run 1 segment -m "$model" --prompts wrong.jsonl -o out2
    has stderr "wrong.jsonl: line 1"
}

test_events_for_programs() {
    pictures 2
    echo hello >in/3.png
    segment 1 in -o out -f json --json
    python3 -c '
import json
events = [json.loads(line) for line in open("stdout")]
assert [e["event"] for e in events] == ["start", "done", "done", "failed", "end"], events
assert events[0]["inputs"] == 3 and events[1]["files"] == ["0.json"], events
assert "star" in events[1]["objects"] and events[1]["seconds"], events
assert "3.png" in events[3]["error"] and events[4]["failed"] == 1, events
'
}

test_an_interrupt_finishes_the_picture_and_says_how_to_go_on() {
    pictures 30
    "$program" segment -m "$model" -t star in -o out -f json >stdout 2>stderr </dev/null &
    local pid=$! code=0
    until_finished 2 out "$pid"
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || fail "exit code $code"
    has stderr "the same command with --resume goes on"
    [ "$(finished out)" = "$(find out -name '*.json' | wc -l)" ] || fail "journal and files differ"
}

test_two_runs_into_one_folder_are_refused() {
    pictures 30
    "$program" segment -m "$model" -t star in -o out -f json >/dev/null 2>&1 </dev/null &
    local pid=$!
    until_finished 1 out "$pid"
    run 1 segment -m "$model" -t star in -o out -f json --resume
    kill "$pid"
    wait "$pid" || true
    has stderr "another run"
}

test_a_terminal_sees_progress_and_others_do_not() {
    pictures 6
    segment 0 in -f none
    lacks stdout $'\e'
    empty stderr
    command -v script >/dev/null || return 0
    TERM=xterm script -qec "'$program' segment -m '$model' --image-size 168 -t star in -f none" typescript >/dev/null </dev/null
    has typescript "6 of 6 images, "
    has typescript "images/s"
    TERM=dumb script -qec "'$program' segment -m '$model' --image-size 168 -t star in -f none" typescript >/dev/null </dev/null
    lacks typescript $'\e'
}

test_previews_are_pictures() {
    mkdir in
    cp "$scenes/scene-04.png" in/0.png  # 452 x 301
    segment 0 in/0.png -f none
    lacks stdout $'\e'
    for kind in kitty iterm sixel; do
        segment 0 in/0.png -f none --preview $kind
        mv stdout $kind
    done
    python3 -c '
import base64, re
kitty = open("kitty", "rb").read()
pieces = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty)
assert pieces[0][0] == b"a=T,f=100,m=1" and pieces[-1][0] == b"m=0", pieces[0][0]
png = base64.b64decode(b"".join(piece for _, piece in pieces))
assert png.startswith(b"\x89PNG") and int.from_bytes(png[16:20], "big") == 452, png[:30]
size, letters = re.search(rb"\x1b\]1337;File=inline=1;size=(\d+):([^\x07]*)\x07", open("iterm", "rb").read()).groups()
assert base64.b64decode(letters) == png and int(size) == len(png)
sixel = re.search(rb"\x1bPq\"1;1;452;301(.*)\x1b\\", open("sixel", "rb").read(), re.S).group(1)
bands = re.sub(rb"#\d+;2;\d+;\d+;\d+", b"", sixel).split(b"-")
assert len(bands) == 52 and bands[-1] == b"", len(bands)  # 301 rows in sixes
for line in bands[0].rstrip(b"$").split(b"$"):
    columns = sum(int(n) if n else 1 for n, _ in re.findall(rb"(?:!(\d+))?([?-~])", re.sub(rb"^#\d+", b"", line)))
    assert columns == 452, columns
'
}

test_show_opens_the_overlay() {
    pictures 1
    mkdir bin
    printf '#!/bin/sh\necho "$1" >shown\n' >bin/xdg-open
    chmod +x bin/xdg-open
    PATH=$PWD/bin:$PATH segment 0 in/0.png --show
    [ "$(cat shown)" = in/0_overlay.png ] || fail "showed $(cat shown)"
    PATH=/nowhere segment 1 in/0.png --show --overwrite
    has stderr "xdg-open"
    has stderr "in/0_overlay.png"
    segment 2 in/0.png --show -f none
}

test_a_camera_gives_a_picture() {
    local camera=camera:lavfi:testsrc=size=320x240:rate=5:duration=1 code=0
    "$program" segment -m "$model" --image-size 168 -t star "$camera" -f json >stdout 2>stderr </dev/null || code=$?
    if grep -q libavdevice stderr; then echo "skipped: FFmpeg's libavdevice is not installed"; return 0; fi
    [ $code = 0 ] || fail "exit code $code"
    has stdout '"width": 320'
    run 0 track -m "$model" --image-size 168 -t star "$camera" --frames 3 -o out
    [ "$(wc -l <out/camera.jsonl)" = 3 ] || fail "expected three frames"
    segment 1 camera:/dev/no-such-camera -f none
    has stderr "the camera cannot be opened"
}

test_absurd_sizes_are_refused_by_name() {
    pictures 1
    python3 -c '
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, width, height):
    data = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + data)
png("in/wide.png", 40000, 2)
png("in/large.png", 30000, 30000)
'
    segment 1 in -f none
    has stderr "in/wide.png: the image is 40000 x 2 pixels, but at most 32768 pixels a side"
    has stderr "at most 268435456 are accepted"
    has stdout "1 image done, 2 failed"
}
