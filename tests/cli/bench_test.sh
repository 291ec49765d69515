root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

test_measures_the_steps_and_profiles_the_operators() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --runs 2 --profile
    for word in image_encoder concept_decoder mask_decoder whole linear attention GFLOP; do has stdout "$word"; done
    empty stderr
}

test_json_holds_the_same() {
    run 0 bench -m "$root/models/sam3-shapes.gguf" --runs 1 --profile --json
    for word in '"median"' '"image_encoder"' '"peak_tensor_bytes"' '"profile"'; do has stdout "$word"; done
}

test_wrong_usage_and_models_give_a_sentence() {
    run 2 bench
    run 2 bench -m x --runs 0
    run 1 bench -m absent
    has stderr "absent"
}
