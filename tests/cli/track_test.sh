# `sam3 track` on the model in the box and its clip.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
clip=$root/assets/clip.mp4

test_follows_a_phrase_and_writes_every_format() {
    run 0 track -m "$model" -i "$clip" -t "red square" --frames 18 -o out/deep -f json,png,overlay
    has stdout "18 frames, "
    has stdout "out/deep/clip_masks"
    has stdout "out/deep/clip_overlay.mp4"
    empty stderr
    [ "$(wc -l <out/deep/clip.jsonl)" = 18 ] || fail "expected 18 lines"
    [ "$(find out/deep/clip_masks -name '*.png' | wc -l)" = 18 ] || fail "expected 18 label maps"
    [ -s out/deep/clip_overlay.mp4 ] || fail "no overlay"
    has out/deep/clip.jsonl '"label":"red square"'
    head -1 out/deep/clip.jsonl | grep -q '"frame":0,"width":336,"height":336' || fail "no frame 0"
    [ "$(find out -name '*session*' -o -name '*resume*' -o -name '*tmp*' | wc -l)" = 0 ] || fail "a working file was left"
}

test_follows_clicks_boxes_and_masks_both_ways() {
    run 0 track -m "$model" -i "$clip" --point 4:7:228,215 --neg-point 4:7:10,10 --box 4:9:20,55,90,110 --direction both --frames 3 -o out
    [ "$(grep -o '"frame":[0-9]*' out/clip.jsonl | tr '\n' ' ')" = '"frame":1 "frame":2 "frame":3 "frame":4 "frame":5 "frame":6 ' ] || fail "frames are out of order"
    [ "$(grep -c '"id":7' out/clip.jsonl)" = 6 ] || fail "object 7 was lost"
    has out/clip.jsonl '"id":9'
    run 0 track -m "$model" -i "$clip" --point 0:1:228,215 --frames 1 -o first -f png
    run 0 segment -m "$model" -i "$root/assets/scene-00.png" --point 100,100 -o mask -f png -q
    run 0 track -m "$model" -i "$clip" --mask 0:2:mask/scene-00_mask_0.png --frames 2 -o out2
    has out2/clip.jsonl '"id":2'
}

test_a_click_corrects_what_a_phrase_found() {
    run 0 track -m "$model" -i "$clip" -t "red square" --immediate --frames 3 -o plain -q
    id=$(grep -o '"id":[0-9]*' plain/clip.jsonl | head -1 | cut -d: -f2)
    run 0 track -m "$model" -i "$clip" -t "red square" --immediate --frames 3 --neg-point "1:$id:228,215" -o clicked -q
    ! cmp -s plain/clip.jsonl clicked/clip.jsonl || fail "the click changed nothing"
    run 1 track -m "$model" -i "$clip" -t "red square" --immediate --frames 3 --point 1:77:228,215 -o absent -q
    has stderr 77
}

# Stops a run hard after some frames, again and again, and compares with one that was left alone.
test_killed_and_resumed_gives_the_same_files() {
    local arguments=(track -m "$model" -i "$clip" -t "red square" --frames 16 --checkpoint 3 -f png,overlay -q)
    run 0 "${arguments[@]}" -o whole
    "$program" "${arguments[@]}" -o cut >stdout 2>stderr </dev/null &
    local job=$!
    for _ in $(seq 600); do [ -e cut/clip.resume.json ] && break; sleep 0.05; done
    kill -9 "$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
    run 1 "${arguments[@]}" -o cut
    has stderr "--resume"
    run 1 "${arguments[@]}" -t other -o cut --resume
    has stderr "other options"
    run 0 "${arguments[@]}" -o cut --resume
    diff -r whole cut || fail "the resumed run differs"
    run 0 "${arguments[@]}" -o cut --resume
    diff -r whole cut || fail "resuming a finished run changed it"
}

test_label_maps_can_be_asked_for_later() {
    local arguments=(track -m "$model" -i "$clip" -t "red square" --frames 4 -q)
    run 0 "${arguments[@]}" -o whole -f png
    run 0 "${arguments[@]}" -o later
    run 0 "${arguments[@]}" -o later --resume -f png
    diff -r whole later || fail "not as if they had been asked for at once"
}

test_formats_that_cannot_be_are_refused_before_the_work() {
    run 2 track -m "$model" -i "$clip" -t "red square" -o out -f veval
    has stderr "--truth"
    run 2 track -m "$model" -i "$clip" -t "red square" -o out -f cutout
    has stderr "still images"
    [ ! -e out ] || fail "work was done"
}

# The same in the middle of the way back, with frames that are still held back.
test_resumes_on_the_way_back() {
    local arguments=(track -m "$model" -i "$clip" -t "red square" --start 4 --frames 5 --direction both --checkpoint 1 -q)
    run 0 "${arguments[@]}" -o whole
    "$program" "${arguments[@]}" -o cut >stdout 2>stderr </dev/null &
    local job=$!
    for _ in $(seq 1200); do
        ls cut/clip.session-[78] >/dev/null 2>&1 && break
        kill -0 "$job" 2>/dev/null || break
        sleep 0.02
    done
    kill -9 "$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
    # What a process leaves that is killed in the middle of a checkpoint, whether it happened to or not.
    touch cut/clip.resume.json.part99-1 cut/clip.session-1
    run 0 "${arguments[@]}" -o cut --resume
    diff -r whole cut || fail "the resumed run differs"
}

test_ctrl_c_keeps_what_is_finished() {
    "$program" track -m "$model" -i "$clip" --point 0:1:228,215 -o out -q >stdout 2>stderr </dev/null &
    local job=$! code=0
    for _ in $(seq 600); do [ -s out/clip.jsonl ] && break; sleep 0.05; done
    kill -INT "$job" 2>/dev/null || true
    wait "$job" || code=$?
    if [ "$code" = 1 ]; then
        has stderr "stopped after"
        [ -s out/clip.resume.json ] || fail "no checkpoint"
        run 0 track -m "$model" -i "$clip" --point 0:1:228,215 -o out -q --resume
    fi
    [ "$(wc -l <out/clip.jsonl)" = 24 ] || fail "expected 24 lines"
}

test_reads_folders_and_raw_frames_on_stdin() {
    mkdir frames
    cp "$root/assets/scene-00.png" frames/1.png
    cp "$root/assets/scene-00.png" frames/2.png
    run 0 track -m "$model" -i frames --point 0:3:100,100 -o out
    has stdout "2 frames, 1 object"
    local code=0
    head -c $((64 * 48 * 3 * 3)) /dev/zero | "$program" track -m "$model" -i - --raw-size 64x48 -t star -o piped -f overlay >stdout 2>stderr || code=$?
    [ "$code" = 0 ] || fail "raw frames failed"
    [ "$(wc -l <piped/stdin.jsonl)" = 3 ] || fail "expected 3 lines"
    [ -s piped/stdin_overlay.mp4 ] || fail "no overlay"
}

test_wrong_usage_gives_a_sentence() {
    run 2 track -m "$model" -i "$clip" -o out
    has stderr "nothing to follow"
    run 2 track -m "$model" -i "$clip" -o out --point 210,130
    has stderr "FRAME:ID"
    run 2 track -m "$model" -i "$clip" -o out --point 0:1:5,5 --mask 0:1:x.png
    has stderr "one or the other"
    run 2 track -m "$model" -i - --direction both -t x -o out
    has stderr "pipe"
    run 1 track -m "$model" -i "$clip" -o out --point 99:1:5,5
    has stderr "24 frames"
    run 1 track -m "$model" -i "$clip" -o out --point 0:1:5000,5
    has stderr "outside the image"
    run 1 track -m "$model" -i absent.mp4 -t x -o out
    has stderr "absent.mp4"
    run 1 track -m "$root/tests/data/models/sam1-b" -i "$clip" --point 0:1:5,5 -o out
    has stderr "no memory"
}

# Stops after the first checkpoint; leaves cut/clip.resume.json and its session.
stop_early() {
    "$program" "${arguments[@]}" -o cut >stdout 2>stderr </dev/null &
    local job=$!
    for _ in $(seq 600); do [ -e cut/clip.resume.json ] && break; sleep 0.05; done
    kill -9 "$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
    [ -e cut/clip.resume.json ] || fail "no checkpoint was written"
}

test_damaged_checkpoints_are_named_and_nothing_is_lost() {
    local arguments=(track -m "$model" -i "$clip" --point 0:1:228,215 --frames 12 --checkpoint 2 -q)
    run 0 "${arguments[@]}" -o whole
    stop_early
    cp -r cut kept
    echo "{" >cut/clip.resume.json
    run 1 "${arguments[@]}" -o cut --resume
    has stderr "clip.resume.json: not a checkpoint"
    cp kept/clip.resume.json cut/
    local session
    session=$(ls cut/clip.session-*)
    head -c 200 "kept/$(basename "$session")" >"$session"
    run 1 "${arguments[@]}" -o cut --resume
    has stderr "$(basename "$session")"
    rm "$session"
    run 1 "${arguments[@]}" -o cut --resume
    has stderr "$(basename "$session")"
    head -1 kept/clip.jsonl >cut/clip.jsonl
    run 1 "${arguments[@]}" -o cut --resume
    has stderr "it was changed since"
    rm -r cut && mv kept cut
    run 0 "${arguments[@]}" -o cut --resume
    diff -r whole cut || fail "the resumed run differs"
}

test_bad_masks_and_folders_are_refused() {
    run 1 track -m "$model" -i "$clip" --mask 0:1:absent.png --frames 2 -o out
    has stderr absent.png
    run 0 segment -m "$model" -i "$root/assets/scene-00.png" --image-size 336 --point 100,100 -o mask -f png -q
    printf 'not a picture' >text.png
    run 1 track -m "$model" -i "$clip" --mask 0:1:text.png --frames 2 -o out
    has stderr text.png
    echo "a file" >taken
    run 1 track -m "$model" -i "$clip" --point 0:1:228,215 --frames 2 -o taken/out
    has stderr taken
}

test_formats_of_clips_are_made_from_the_lines() {
    run 0 track -m "$model" -i "$root/assets/clip.mp4" -t "red square" --frames 3 -o out -f mots,davis,ytvis,csv
    for path in clip_mots clip_davis clip_ytvis.json clip_summary.csv; do
        [ -e "out/$path" ] || fail "no $path among $(ls out)"
        has stdout "out/$path"
    done
    [ "$(find out/clip_davis -name '*.png' | wc -l)" = 3 ] || fail "expected three label maps"
    run 2 track -m "$model" -i "$root/assets/clip.mp4" -t "red square" -o out2 -f labelmee
    has stderr "there is no format 'labelmee'"
    run 2 track -m "$model" -i "$root/assets/clip.mp4" -t "red square" -o out2 -f cutout
    has stderr "still images"
}
