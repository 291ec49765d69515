root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

test_measures_the_steps_and_profiles_the_operators() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --runs 2 --profile
    for word in image_encoder concept_decoder mask_decoder whole linear attention GFLOP; do has stdout "$word"; done
    for word in "image and phrase" "second phrase" "image and click" "next click" "the process at most"; do has stdout "$word"; done
    grep -qE '^image: [0-9.]+ GFLOP/s, [0-9.]+ % of the measured peak of [0-9.]+$' stdout || fail "expected the share of the peak"
    empty stderr
}

test_measures_the_frames_of_a_video() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task video --objects 2 --runs 3 --image-size 112
    for word in "video frame" objects tracker_neck; do has stdout "$word"; done
    lacks stdout "phrase"
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task video --objects 2 --runs 3 --image-size 112 --json
    has stdout '"objects": 2'
}

test_measures_the_frames_of_a_video_by_phrase() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task concepts --objects 3 --runs 2 --image-size 112
    for word in "video frame by phrase" image_encoder concept_decoder objects masks rules render; do has stdout "$word"; done
    lacks stdout "click"
    run 0 bench -m "$root/models/sam3-shapes.gguf" -i "$root/assets/squares.jpg" -t square --task concepts --objects 3 --runs 2 --json
    has stdout '"objects": 3'
    run 1 bench -m "$root/models/sam3-shapes.gguf" --task concepts --objects 900 --runs 1 --image-size 112
    has stderr "objects instead of 900"
}

# Eight frames are more than the folder has: it begins again.
test_measures_frames_that_are_decoded_meanwhile() {
    mkdir frames
    for i in 1 2 3; do cp "$root/assets/squares.jpg" frames/$i.jpg; done
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task video --objects 2 --runs 8 --image-size 112 --video frames --json
    has stdout '"video": "frames"'
    has stdout '"video_frame"'
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task concepts --objects 2 --runs 2 --image-size 112 --video frames
    has stdout "video frame by phrase"
    run 1 bench -m "$root/models/sam3-shapes.gguf" --task video --runs 1 --image-size 112 --video absent.mp4
    has stderr "absent.mp4"
    run 2 bench -m "$root/models/sam3-shapes.gguf" --task click --video frames
    has stderr "--task concepts"
    run 2 bench -m "$root/models/sam3-shapes.gguf" --task video --video frames -i "$root/assets/squares.jpg"
    has stderr "--image"
    run 2 bench -m "$root/models/sam3-shapes.gguf" --task video --video camera:lavfi:testsrc
    has stderr "a camera cannot"
    run 2 bench -m "$root/models/sam3-shapes.gguf" --task video --video -
    has stderr "a pipe cannot"
}

test_a_task_loads_and_measures_only_what_it_needs() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task click --runs 1
    has stdout "next click"
    lacks stdout "phrase"
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task phrase --runs 1
    has stdout "second phrase"
    lacks stdout "click"
    run 0 bench -m "$root/tests/data/models/sam1-b" --runs 1
    has stdout "image and click"
    lacks stdout "phrase"
    run 1 bench -m "$root/tests/data/models/sam1-b" --task video
    has stderr "SAM 1"
}

# A run must not find the phrases of the run before in the cache: a new phrase is what a user waits for.
test_every_run_encodes_its_phrases() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task phrase --runs 1 --profile --json
    grep -A1 '"name": "text_encoder"' stdout | grep -q '"calls": 2' || fail "expected two phrases to be encoded"
}

test_rests_between_runs_when_asked_to() {
    local before=$EPOCHREALTIME
    run 0 bench -m "$root/models/sam3-shapes.gguf" --task click --runs 2 --pause 0.5 --json
    has stdout '"pause_seconds": 0.5'
    [ $((${EPOCHREALTIME/./} - ${before/./})) -ge 1000000 ] || fail "expected two rests of half a second"
}

test_json_holds_the_same() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --runs 1 --profile --json
    for word in '"median"' '"image_encoder"' '"waits"' '"load_seconds"' '"peak_tensor_bytes"' '"peak_process_bytes"' '"percent_of_peak"' '"profile"'; do has stdout "$word"; done
}

test_the_threshold_decides_how_many_masks_are_made() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" -i "$root/assets/squares.jpg" --task phrase --second square --runs 1 --json
    lacks stdout '"detections": 0'
    run 0 bench -m "$root/models/sam3-shapes.gguf" -i "$root/assets/squares.jpg" --task phrase --second square --runs 1 --json --threshold 1
    has stdout '"detections": 0'
}

test_wrong_usage_and_models_give_a_sentence() {
    run 2 bench
    run 2 bench -m x --runs 0
    run 2 bench -m x --task dance
    run 2 bench -m x --pause -1
    has stderr "--pause"
    run 2 bench -m x --pause soon
    run 1 bench -m absent
    has stderr "absent"
}
