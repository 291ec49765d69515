# `sam3 segment` on the model in the box and its scenes.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
scene=$root/assets/scene-04.png

test_finds_what_a_phrase_names() {
    run 0 segment -m "$model" -f none -i "$scene" -t "pink object" --threshold 0.5
    [ "$(grep -c '^pink object' stdout)" = 3 ] || fail "expected the ring, the star and the cross"
    empty stderr
}

test_fewer_bits_find_the_same() {
    for precision in bf16 int8; do
        run 0 segment -m "$model" -f none -i "$scene" -t "pink object" --threshold 0.5 --precision $precision
        [ "$(grep -c '^pink object' stdout)" = 3 ] || fail "expected the ring, the star and the cross in $precision"
    done
    run 2 segment -m "$model" -i "$scene" -t "pink object" --precision int4
    has stderr "int4"
}

test_says_when_nothing_is_found() {
    run 0 segment -m "$model" -f none -i "$scene" -t "red heart" --threshold 0.9
    has stdout "nothing found for 'red heart'"
}

test_json_holds_size_label_score_box_mask_and_timings() {
    run 0 segment -m "$model" -i "$scene" -t "pink object" -t hexagon --threshold 0.5 -f json
    for field in '"width": 452' '"height": 301' '"label": "hexagon"' '"score": ' '"box": ' '"counts": ' '"presence": ' '"image_encoder": '; do
        has stdout "$field"
    done
}

test_writes_files_into_the_output_folder() {
    run 0 segment -m "$model" -i "$scene" -t "pink object" --threshold 0.5 --semantic -o out/deep -f json,png,overlay
    for file in scene-04.json scene-04_overlay.png scene-04_mask_0.png scene-04_mask_2.png scene-04_semantic_0.png; do
        [ -s "out/deep/$file" ] || fail "no $file"
    done
    [ "$(find out -name '*tmp*' | wc -l)" = 0 ] || fail "a temporary file was left"
}

test_exemplars_find_their_like() {
    run 0 segment -m "$model" -i "$root/assets/scene-03.png" --exemplar 132,68,231,167 --threshold 0.5 -f none
    grep -q '^visual' stdout || fail "the exemplar itself was not found"
}

test_clicks_and_boxes_give_an_object_each() {
    run 0 segment -m "$model" -f none -i "$scene" --point 260,270 --object --point 160,130 --neg-point 5,5 --object --box 290,85,370,135
    [ "$(grep -c '^object ' stdout)" = 3 ] || fail "expected three objects"
    run 0 segment -m "$model" -i "$scene" --point 160,130 --multimask -f json
    [ "$(grep -c '"quality"' stdout)" = 3 ] || fail "expected three candidates"
}

test_a_click_corrects_what_a_phrase_found() {
    run 0 segment -m "$model" -f none -i "$scene" -t hexagon --threshold 0.8 --point 160,130
    grep -q '^hexagon' stdout || fail "no hexagon"
    run 1 segment -m "$model" -f none -i "$scene" -t hexagon --threshold 0.8 --point 5,5
    has stderr "under the click"
}

test_dumped_logits_come_back_as_a_mask_prompt() {
    run 0 segment -m "$model" -f none -i "$scene" --point 160,130 --dump dump -q
    for name in pixel_values vision.backbone tracker.fpn.0 click.masks click.iou click.object; do
        [ -s "dump/$name.npy" ] || fail "no $name.npy"
    done
    run 0 segment -m "$model" -f none -i "$scene" --mask dump/click.masks.npy --point 165,130
    grep -q '^object 0' stdout || fail "no object"
    run 0 segment -m "$model" -f none -i "$scene" -t hexagon --dump dump2 -q
    for name in text.features fusion.output decoder.queries decoder.boxes decoder.logits decoder.presence masks.logits semantic.logits vision.fpn.2; do
        [ -s "dump2/$name.npy" ] || fail "no $name.npy"
    done
}

test_wrong_usage_ends_with_2() {
    run 2 segment -i "$scene" -t star
    run 2 segment -m "$model" -i "$scene"
    has stderr "nothing to look for"
    run 2 segment -m "$model" -i "$scene" --exemplar 1,2,3
    has stderr "--exemplar expects 4 numbers"
    run 2 segment -m "$model" -i "$scene" --point nan,3
    has stderr "--point expects 2 numbers"
    run 2 segment -m "$model" -i "$scene" -t star -f gif -o out
    has stderr "gif"
    run 2 segment -m "$model" -i "$scene" -t star -f png
    has stderr "--output"
    run 2 segment -m "$model" -i "$scene" -t star --threshold 7
    run 2 segment -m "$model" -i "$scene" --object
}

test_wrong_input_is_a_sentence_and_1() {
    run 1 segment -m "$model" -i absent.png -t star
    has stderr "absent.png"
    printf 'hello' > text.png
    run 1 segment -m "$model" -i text.png -t star
    has stderr "text.png"
    : > empty.png
    run 1 segment -m "$model" -i empty.png -t star
    has stderr "empty.png"
    run 1 segment -m absent -i "$scene" -t star -f none
    has stderr "absent"
    run 1 segment -m "$model" -f none -i "$scene" --exemplar 900,900,950,950
    has stderr "outside the image"
    run 1 segment -m "$model" -f none -i "$scene" --exemplar 50,50,50,60
    has stderr "no area"
    run 1 segment -m "$model" -f none -i "$scene" --point 9000,3
    has stderr "outside the image"
    run 1 segment -m "$model" -f none -i "$scene" --neg-point 4,4
    has stderr "negative"
    run 1 segment -m "$model" -f none -i "$scene" -t "  "
    has stderr "nothing to look for"
    run 1 segment -m "$model" -f none -i "$scene" --exemplar-point 3,3
    has stderr "point exemplars"
    run 1 segment -m "$root/tests/data/models/sam1-b" -i "$scene" -t star -f none
    has stderr "no concept detector"
    run 1 segment -m "$model" -f none -i "$scene" -t star --image-size 100
    has stderr "multiple of 14"
}

test_sam_1_answers_clicks() {
    run 0 segment -m "$root/tests/data/models/sam1-b" -i "$scene" --point 160,130 --multimask -f none
    grep -q '^object 0' stdout || fail "no object"
}

test_damaged_mask_files_give_a_sentence() {
    printf '\x93NUMPY\x01\x00' >short.npy
    printf '\x93NUMPY\x01\x00\xff\xffno header' >long.npy
    printf '\x93NUMPY\x01\x00\x46\x00%-69s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (900000, 900000), }" >huge.npy
    printf '\x93NUMPY\x01\x00\x36\x00%-53s\n' "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}" >objects.npy
    echo "<html>" >page.npy
    for file in short long huge objects page absent; do
        run 1 segment -m "$model" -f none -i "$scene" --mask $file.npy --point 160,130
        has stderr "$file.npy"
        empty stdout
    done
}
