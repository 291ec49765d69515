# The model in the box on a small held-out set: no figure may be more than a point below what it was when the model was put there.
# tests/data/quality/TASK.json is what `sam3 eval --json` printed then; the set is made by tests/goldens/eval_set.py.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
set=$root/tests/data/quality

holds() {  # GROUND-TRUTH TASK [OPTION...]
    run 0 eval "$set/$1" -m "$root/models/sam3-shapes.gguf" --images "$set" --task "$2" --threads 1 --baseline "$set/$2.json" --json "${@:3}"
}

test_text_is_as_good_as_it_was() { holds images.json text; }
test_text_in_int8_is_as_good_as_in_f32() { holds images.json text --precision int8; }
test_exemplars_are_as_good_as_they_were() { holds images.json exemplar; }
test_clicks_are_as_good_as_they_were() { holds images.json clicks3; }
test_following_clicks_is_as_good_as_it_was() { holds clips.json video-click; }
test_following_text_is_as_good_as_it_was() { holds clips.json video-text; }

# The test itself: answers that only the surest detections are left of must fail it.
test_a_worse_model_fails() {
    run 1 eval "$set/images.json" -m "$root/models/sam3-shapes.gguf" --images "$set" --task exemplar --threads 1 \
        --threshold 0.95 --baseline "$set/exemplar.json"
}
