# `sam3 everything` on the model in the box and its scenes.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
scene=$PWD/scene-00.png  # results may go beside it
cp "$root/assets/scene-00.png" "$scene"
# A grid that hits every shape, and thresholds that a small model reaches.
few=(--threads 1 --points-per-side 6 --stability-score-thresh 0.85)

test_outlines_the_shapes_of_a_scene() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}"
    has stdout "mask    iou  stability"
    [ "$(wc -l <stdout)" -ge 4 ] || fail "expected at least three masks"
    empty stderr
}

test_json_is_that_of_amg() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}" -f json
    [ "$(head -c 1 stdout)" = "[" ] || fail "expected a list"
    for field in '"segmentation": ' '"counts": ' '"size": ' '"area": ' '"bbox": ' '"predicted_iou": ' \
                 '"point_coords": ' '"stability_score": ' '"crop_box": '; do
        has stdout "$field"
    done
    mv stdout by_format
    run 0 everything -m "$model" -i "$scene" "${few[@]}"
    # The table has the box past its last pixel, amg.py the size up to it.
    read -r _ _ _ x0 y0 x1 y1 area < <(sed -n 2p stdout)
    tr -d '[:space:]' <by_format >compact
    has compact "\"area\":$area,\"bbox\":[$x0,$y0,$((x1 - x0 - 1)),$((y1 - y0 - 1))],\"predicted_iou\":"
    has compact '"crop_box":[0,0,336,336]}'
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --convert-to-rle
    cmp -s stdout by_format || fail "--convert-to-rle differs from --format json"
}

test_batches_do_not_change_the_result() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --points-per-batch 5 -f json
    mv stdout small
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --points-per-batch 36 -f json
    cmp -s stdout small || fail "another batch size gave another result"
}

test_writes_files_into_the_output_folder() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}" -o out/deep -f json,png,overlay -q
    empty stdout
    for file in scene-00.json scene-00_overlay.png scene-00_mask_0.png scene-00_mask_2.png; do
        [ -s "out/deep/$file" ] || fail "no $file"
    done
    run 0 everything -m "$model" -i "$scene" "${few[@]}" -o plain
    [ "$(ls plain)" = scene-00.json ] || fail "expected the JSON alone"
}

test_crops_see_more_than_the_whole() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --crop-n-layers 1 --crop-n-points-downscale-factor 2 -f json
    [ "$(grep -c '"crop_box"' stdout)" -ge 3 ] || fail "expected masks"
    grep -A 4 '"crop_box"' stdout | grep -q ' 225' || fail "expected masks of a crop of 225 pixels"
}

test_small_regions_are_cleaned_up() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}" -f json
    mv stdout before
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --min-mask-region-area 200 -f json
    ! cmp -s stdout before || fail "nothing changed"
}

test_says_when_no_mask_passes() {
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --pred-iou-thresh 1
    has stdout "lower --pred-iou-thresh"
    run 0 everything -m "$model" -i "$scene" "${few[@]}" --pred-iou-thresh 1 -f json
    [ "$(cat stdout)" = "[]" ] || fail "expected an empty list"
}

test_sam_1_outlines_too() {
    run 0 everything -m "$root/tests/data/models/sam1-b" -i "$scene" --threads 1 --points-per-side 3 \
        --pred-iou-thresh 0 --stability-score-thresh 0
    has stdout "mask    iou  stability"
}

test_wrong_usage_ends_with_2() {
    run 2 everything -i "$scene"
    run 2 everything -m "$model"
    run 2 everything -m "$model" -i "$scene" -f gif -o out
    has stderr "gif"
    run 2 everything -m "$model" -i "$scene" -f overlay
    has stderr "--output"
    run 2 everything -m "$model" -i "$scene" --points-per-side 0
    has stderr "--points-per-side"
    run 2 everything -m "$model" -i "$scene" --pred-iou-thresh 7
    run 2 everything -m "$model" -i "$scene" --crop-n-layers 40
}

test_wrong_input_is_a_sentence_and_1() {
    run 1 everything -m "$model" -i absent.png
    has stderr "absent.png"
    run 1 everything -m absent -i "$scene"
    has stderr "absent"
    run 1 everything -m "$model" -i "$scene" --crop-n-layers 8
    has stderr "too small"
    run 1 everything -m "$model" -i "$scene" --crop-n-layers 2 --crop-n-points-downscale-factor 9
    has stderr "has no points"
    run 1 everything -m "$model" -i "$scene" --crop-overlap-ratio nan
    has stderr "crop-overlap-ratio"
    run 1 everything -m "$model" -i "$scene" --pred-iou-thresh nan
    has stderr "not a number"
}

test_help_has_the_defaults_of_amg() {
    run 0 everything --help
    for text in --points-per-side --box-nms-thresh Examples:; do has stdout "$text"; done
    tr -s ' \n' ' ' <stdout >joined
    for value in 32 64 0.88 0.95 0.7 0.341333; do has joined "default: $value)"; done
}
