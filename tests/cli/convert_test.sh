# `sam3 convert`, `sam3 quantize` and `sam3 inspect --diff` on the model in the box.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
image=$root/assets/scene-00.png

test_a_converted_model_gives_the_same_pictures() {
    run 0 convert "$model" shapes.gguf --type f32 --license apache-2.0
    has stdout "shapes.gguf: "
    empty stderr
    run 0 segment -m "$model" -i "$image" -t star -o a -f png -q
    run 0 segment -m shapes.gguf -i "$image" -t star -o b -f png -q
    [ "$(find a -name '*.png' | wc -l)" -gt 0 ] || fail "nothing was found"
    diff -r a b || fail "the pictures differ"
    run 0 inspect shapes.gguf --check
    has stdout "general.license = apache-2.0"
    has stdout "nothing: the model is complete"
    [ "$(find . -name '*partial*' | wc -l)" = 0 ] || fail "a working file was left"
}

test_quantize_makes_it_smaller_and_diff_says_by_how_much() {
    run 0 convert "$model" f16.gguf --type f16 -q
    run 0 quantize f16.gguf q4_0.gguf --type Q4_0
    has stdout "q4_0"
    [ "$(stat -c %s q4_0.gguf)" -lt "$(($(stat -c %s f16.gguf) / 2))" ] || fail "not half of the size"
    run 0 segment -m q4_0.gguf -i "$image" -t circle -f none -q
    run 0 inspect f16.gguf --diff f16.gguf
    has stdout "tensors with other values: 0"
    run 0 inspect "$model" --diff q4_0.gguf
    has stdout "q8_0 -> q4_0"
    run 0 inspect f16.gguf --diff q4_0.gguf --json
    has stdout '"relative_rms"'
    run 1 quantize q4_0.gguf q8_0.gguf --type q8_0
    has stderr "--requantize"
    run 0 quantize q4_0.gguf q8_0.gguf --type q8_0 --requantize
}

test_an_int8_model_answers_as_int8_does_at_load() {
    run 1 quantize "$model" int8.gguf --type int8
    has stderr "--requantize"
    run 0 quantize "$model" int8.gguf --type int8 --requantize
    has stdout " int8"
    run 0 inspect int8.gguf --check
    has stdout "int8: "
    has stdout "nothing: the model is complete"
    run 0 segment -m "$model" -i "$image" -t star --precision int8 -o a -f png,json -q
    run 0 segment -m int8.gguf -i "$image" -t star -o b -f png,json -q
    [ "$(find a -name '*.png' | wc -l)" -gt 0 ] || fail "nothing was found"
    diff -r -x '*.json' a b || fail "the pictures differ"
    run 0 bench -m int8.gguf -i "$image" --task click --runs 1 --json
    has stdout '"precision": "int8"'
    run 0 bench -m int8.gguf -i "$image" --task click --runs 1 --json --precision f32
    has stdout '"precision": "f32"'
    run 0 inspect "$model" --diff int8.gguf
    has stdout "q8_0 -> int8"
}

test_visual_only_answers_clicks_and_refuses_text() {
    run 0 convert "$model" visual.gguf --visual-only --type q8_0
    has stdout "left out: text tower, detector"
    run 0 segment -m visual.gguf -i "$image" --point 100,100 -f none -q
    run 1 segment -m visual.gguf -i "$image" -t circle -f none
    has stderr "has no concept detector"
    run 0 track -m visual.gguf -i "$root/assets/clip.mp4" --point 0:1:228,215 --frames 2 -o video -q
}

test_wrong_use_is_refused_and_nothing_is_left() {
    run 2 convert "$model"
    run 2 convert "$model" out.gguf --type q3_x
    run 1 convert absent out.gguf
    has stderr absent
    run 1 convert "$image" out.gguf
    has stderr "scene-00.png"
    run 1 quantize "$root/tests/data/models/sam3-v" out.gguf --type q8_0
    has stderr "sam3 convert"
    run 1 convert "$model" absent/folder/out.gguf
    has stderr "absent/folder/out.gguf"
    [ ! -e out.gguf ] || fail "a file was left"
    echo mine >out.gguf
    run 1 convert "$model" out.gguf
    has stderr "--overwrite"
    [ "$(cat out.gguf)" = mine ] || fail "the file was replaced"
    run 0 convert "$model" out.gguf --overwrite -q
    run 1 convert out.gguf out.gguf --overwrite
    has stderr "replace the input"
}
