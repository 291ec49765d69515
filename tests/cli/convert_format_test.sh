# sam3 convert-format: results from one format into another.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Two pictures, three objects, one with a hole.
pictures() {
    cat >coco.json <<'END'
{"images": [{"id": 1, "file_name": "a/one.png", "width": 12, "height": 8}, {"id": 2, "file_name": "two.png", "width": 12, "height": 8}],
 "categories": [{"id": 1, "name": "red \"square\""}, {"id": 2, "name": "dog"}],
 "annotations": [
  {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [[1, 1, 5, 1, 5, 6, 1, 6, 1, 1, 2, 2, 2, 5, 4, 5, 4, 2, 2, 2]], "score": 0.5},
  {"id": 2, "image_id": 1, "category_id": 2, "segmentation": [[7, 1, 10, 1, 10, 4, 7, 4]], "score": 0.25},
  {"id": 3, "image_id": 2, "category_id": 2, "segmentation": [[0, 0, 12, 0, 12, 8, 0, 8]]}]}
END
    run 0 convert-format coco.json own.jsonl
    has stdout "2 pictures, 3 objects, from coco to jsonl"
    [ "$(wc -l <own.jsonl)" = 2 ] || fail "expected two lines"
}
# The masks of a list of records, in their order.
masks() { grep -o '"counts":"[^"]*"' "$1"; }

test_formats_lead_back_to_the_same_masks() {
    pictures
    local format
    mkdir -p images/a
    "$program" convert-format own.jsonl masks --to png -q
    cp masks/two_mask_0.png images/two.png  # any picture of that size
    cp masks/two_mask_0.png images/a/one.png
    for format in json coco labelme yolo png davis ids; do
        rm -rf there back.jsonl
        run 0 convert-format own.jsonl there --to "$format" -q
        empty stdout
        run 0 convert-format there back.jsonl --from "$format" --images images -q
        masks back.jsonl >back
        masks own.jsonl >own
        cmp -s own back || fail "$format does not give the masks back"
    done
    run 0 convert-format coco.json polygons.json --to coco --polygons
    lacks polygons.json counts
    run 0 convert-format polygons.json back.jsonl --overwrite
    masks back.jsonl | cmp -s - own || fail "polygons do not give the masks back"
}

test_says_what_is_missing() {
    pictures
    run 1 convert-format own.jsonl there --to overlay
    has stderr "--images"
    run 1 convert-format own.jsonl there.txt --to mots
    has stderr "still image"
    run 1 convert-format own.jsonl there.json --to veval
    has stderr "--truth"
    run 0 convert-format own.jsonl yolo --to yolo
    has stderr "does not keep: scores"
    run 1 convert-format yolo back.jsonl
    has stderr "--images"
    run 1 convert-format own.jsonl one.json --to json
    has stderr "name a folder"
    run 0 convert-format own.jsonl table.csv
    [ "$(wc -l <table.csv)" = 4 ] || fail "expected a title and three lines"
    run 1 convert-format table.csv back.jsonl
    has stderr "--from"
    run 1 convert-format table.csv back.jsonl --from csv
    has stderr "not read from the format csv"
}

test_folders_outside_are_left_out() {
    pictures
    sed 's|"file":"|"file":"/home/me/photos/|' own.jsonl >absolute.jsonl
    run 0 convert-format absolute.jsonl yolo --to yolo
    [ -f yolo/labels/a/one.txt ] && [ -f yolo/labels/two.txt ] || fail "expected names relative to the shared folder"
    run 0 convert-format absolute.jsonl masks --to png
    [ -f masks/two_mask_0.png ] || fail "expected masks/two_mask_0.png"
    run 0 convert-format absolute.jsonl again.json --to coco
    has again.json '"file_name":"a/one.png"'
}

test_writes_over_nothing() {
    pictures
    cp own.jsonl before
    run 1 convert-format own.jsonl own.jsonl --overwrite
    has stderr "never written over what is read"
    run 1 convert-format coco.json own.jsonl
    has stderr "--overwrite"
    cmp -s own.jsonl before || fail "the file was changed"
    run 0 convert-format coco.json own.jsonl --overwrite
    cmp -s own.jsonl before || fail "expected the same file"
}

test_wrong_usage_is_told() {
    run 2 convert-format
    run 2 convert-format a b --to cocoa
    has stderr "known are json"
    run 2 convert-format a b.json
    has stderr "--to"
    run 1 convert-format absent b.jsonl
    has stderr "absent: expected results"
    run 0 convert-format --list
    has stdout "ytvis"
    has stdout "loses: "
    run 0 convert-format --help
    has stdout "Examples:"
}

test_the_folder_of_a_run_can_be_converted_whatever_it_wrote() {
    mkdir in
    cp "$root"/assets/scene-0[034].png in
    echo hello >in/wrong.png
    local arguments=(segment -m "$root/models/sam3-shapes.gguf" --image-size 168 -t star --threshold 0.1 in -q)
    run 1 "${arguments[@]}" -o lines -f jsonl
    run 1 "${arguments[@]}" -o table -f csv,png
    run 0 convert-format lines lines.json --to coco
    run 0 convert-format table table.json --to coco
    has stdout "3 pictures"
    cmp lines.json table.json || fail "results and journal say different things"
}

# Every line of docs/formats.md's examples that a format writes.
test_examples_in_the_documentation_are_what_is_written() {
    local mask='"size":[6,8],"counts":[13,3,3,3,3,3,3,3,14]' moved='"size":[6,8],"counts":[19,3,3,3,3,3,3,3,8]'
    local names='"categories":[{"id":1,"name":"red car"}]' format
    echo "{\"images\":[{\"id\":1,\"file_name\":\"street.png\",\"width\":8,\"height\":6}],$names,
        \"annotations\":[{\"id\":1,\"image_id\":1,\"category_id\":1,\"score\":0.875,\"segmentation\":{$mask}}]}" >street.json
    echo "{\"videos\":[{\"id\":1,\"name\":\"clip\",\"width\":8,\"height\":6,\"file_names\":[\"clip/00000\",\"clip/00001\"]}],$names,
        \"annotations\":[{\"id\":1,\"video_id\":1,\"category_id\":1,\"score\":0.875,\"segmentations\":[{$mask},{$moved}]}]}" >clip.json
    for format in jsonl coco coco-results yolo csv; do run 0 convert-format street.json "out/$format" --to $format -q; done
    for format in tracks mots ytvis veval; do run 0 convert-format clip.json "out/$format" --to $format --truth clip.json -q; done
    find out -type f -exec cat {} + >lines
    [ "$(wc -l <lines)" = 34 ] || fail "expected 34 lines, found $(wc -l <lines)"
    while IFS= read -r line; do has "$root/docs/formats.md" "    $line"; done <lines
    run 0 convert-format street.json street.labelme.json --to labelme -q
    python3 - "$root/docs/formats.md" <<'END'
import json, re, sys
block = re.search(r"`labelme`, in .*?\n\n(.*?)\n\n", open(sys.argv[1]).read(), re.S).group(1)
assert json.loads(block) == json.load(open("street.labelme.json")), block
END
}

# Programs of others read what is written: Python with Pillow and NumPy.
test_others_read_the_files() {
    local code=0
    "$root/scripts/test-formats" "$program" >stdout 2>stderr || code=$?
    [ $code != 77 ] || { cat stderr && exit 77; }
    [ $code = 0 ] || fail "scripts/test-formats: see below"
    has stdout "davis"
}
