# `sam3 eval` on the model in the box and a few held-out scenes.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
one=(--threads 1)  # the machine may be busy: threads that wait for each other would cost more than they bring
set=$root/tests/data/eval
images=$set/images.json
clips=$set/clips.json

# figure NAME: its value in the table on stdout.
figure() { awk -v name="$1" '$1 == name { print $2 }' stdout; }
# above NAME VALUE
above() { awk -v a="$(figure "$1")" -v b="$2" 'BEGIN { exit !(a > b) }' || fail "$1 is '$(figure "$1")', not above $2"; }

# Runs a task, keeps its predictions, scores those again: the same figures to the last digit.
twice() {
    local truth=$1 task=$2
    run 0 eval "$truth" -m "$model" "${one[@]}" --images "$set" --task "$task" -o "$task.json" --json
    empty stderr
    mv stdout first
    run 0 eval "$truth" -p "$task.json" --task "$task" --json
    cmp -s stdout first || fail "the predictions scored again give other figures"
    run 0 eval "$truth" -p "$task.json" --task "$task"
}

test_text_is_run_kept_and_scored_again() {
    twice "$images" text
    [ "$(figure prompts)" = 12 ] || fail "expected 12 prompts"
    [ "$(figure absent)" = 2 ] || fail "expected 2 absent concepts"
    above f1_50 0.6
    above mean_iou 0.8
    above cgf1 0.3
    has text.json '"prompt_id":11'
}

test_exemplars_are_run_kept_and_scored_again() {
    twice "$images" exemplar
    [ "$(figure prompts)" = 3 ] || fail "expected 3 exemplars"
    above f1_50 0.6
    [ -z "$(figure cgf1)" ] || fail "cgF1 needs absent concepts"
}

test_clicks_are_run_kept_and_scored_again() {
    twice "$images" clicks3
    [ "$(figure objects)" = 16 ] || fail "expected 16 objects"
    above mean_iou_1_click 0.7
    above mean_iou_3_clicks 0.7
    [ "$(grep -c '"clicks":2' clicks3.json)" = 16 ] || fail "expected an answer for each object after two clicks"
    local first
    first=$(figure mean_iou_1_click)
    run 0 eval "$images" -p clicks3.json --task click
    [ "$(figure mean_iou_1_click)" = "$first" ] || fail "one click is not the first of three"
    run 1 eval "$images" -p clicks3.json
    has stderr "--task click"
}

test_clips_by_text_are_run_kept_and_scored_again() {
    twice "$clips" video-text
    [ "$(figure prompts)" = 2 ] || fail "expected 2 prompts"
    above j 0.8
    above f 0.8
    [ "$(figure switches_per_track)" = 0.0000 ] || fail "identities changed"
    has video-text.json '"segmentations":[{"size":[336,336]'
}

test_clips_by_click_are_run_kept_and_scored_again() {
    twice "$clips" video-click
    [ "$(figure objects)" = 4 ] || fail "expected the 4 objects of the first frame"
    above j 0.8
    above f 0.7
}

test_what_track_and_segment_write_scores_as_what_eval_runs() {
    run 0 eval "$clips" -m "$model" "${one[@]}" --images "$set" --json
    mv stdout run
    for phrase in cross heart; do run 0 track -m "$model" "${one[@]}" -i "$set/clips/002" -t "purple $phrase" -o $phrase -q; done
    mkdir tracks
    cat cross/002.jsonl heart/002.jsonl >tracks/002.jsonl  # phrases are asked one by one
    run 0 eval "$clips" -p tracks/002.jsonl --json
    cmp -s stdout run || fail "the lines of 'track' score differently"
    run 0 eval "$images" -m "$model" "${one[@]}" --images "$set" --limit 1 --json
    mv stdout run
    run 0 segment -m "$model" "${one[@]}" -i "$set/images/000002.jpg" -t "striped pink hexagon" -t "rose thing" -t "pink square" \
        -t "an pink square" -o out -f json -q --threshold 0.5
    run 0 eval "$images" -p out --limit 1 --json
    cmp -s stdout run || fail "the JSON of 'segment' scores differently"
}

test_a_baseline_is_kept_or_missed() {
    run 0 eval "$images" -m "$model" "${one[@]}" --images "$set" --limit 1 -o p.json --json
    mv stdout before.json
    run 0 eval "$images" -p p.json --limit 1 --baseline before.json -q
    empty stdout
    echo '[]' >nothing.json
    run 1 eval "$images" -p nothing.json --limit 1 --baseline before.json
    has stdout "f1_50"
    has stderr "f1_50 0 instead of"
    run 0 eval "$images" -p nothing.json --limit 1 --baseline before.json --tolerance 1
    run 1 eval "$images" -p nothing.json --baseline before.json
    has stderr "another set"
    run 1 eval "$images" -p nothing.json --limit 1 --task click --baseline before.json
    has stderr "before.json: "
    echo '{}' >no_figures.json
    run 1 eval "$images" -p nothing.json --baseline no_figures.json
    has stderr "no_figures.json"
}

# SA-Co/Gold: the annotator who agrees counts, and pairs that one of them did not finish are left out.
test_of_several_annotators_the_most_favourable_counts() {
    local picture='"file_name":"x.jpg","width":4,"height":2'
    local mask='"iscrowd":0,"category_id":1,"segmentation":{"size":[2,4],"counts":[0,4,4]}'
    pairs() {
        echo "{\"images\":[{\"id\":1,\"text_input\":\"cat\",\"is_instance_exhaustive\":1,$picture}," \
            "{\"id\":2,\"text_input\":\"dog\",\"is_instance_exhaustive\":$1,$picture}],\"annotations\":[$2]}"
    }
    pairs 1 "" >a.json
    pairs 1 "{\"id\":1,\"image_id\":1,$mask}" >b.json
    pairs 0 "{\"id\":1,\"image_id\":1,$mask}" >c.json
    echo "[{\"image_id\":1,\"category_id\":1,\"score\":0.5,\"segmentation\":{\"size\":[2,4],\"counts\":[0,4,4]}}]" >p.json
    run 0 eval a.json -p p.json
    [ "$(figure recall_50)" = 0.0000 ] || fail "expected nothing to be right for one annotator"
    run 0 eval a.json b.json -p p.json
    [ "$(figure prompts) $(figure recall_50) $(figure il_mcc)" = "2 0.9999 1.0000" ] || fail "expected all to be right"
    run 0 eval a.json b.json c.json -p p.json
    [ "$(figure prompts)" = 1 ] || fail "expected one pair that all have finished"
    run 0 eval a.json b.json -p p.json --threshold 0.6
    [ "$(figure recall_50)" = 0.0000 ] || fail "a score below the threshold counted"
    run 1 eval "$images" b.json -p p.json
    has stderr "annotators"
}

test_wrong_usage_ends_with_2() {
    run 2 eval
    run 2 eval "$images"
    has stderr "nothing to score"
    run 2 eval "$images" -m "$model"
    has stderr "--images"
    run 2 eval "$images" -m "$model" "${one[@]}" --images "$set" -p x.json
    has stderr "one of the two"
    run 2 eval "$images" -p x.json -o y.json
    has stderr "--model"
    run 2 eval "$images" -p x.json --task guess
    run 2 eval "$images" -p x.json --threshold 3
}

test_wrong_input_is_a_sentence_and_1() {
    run 1 eval absent.json -p x.json
    has stderr "absent.json"
    run 1 eval "$images" -p absent.json
    has stderr "absent.json"
    run 1 eval "$images" -m "$model" --images absent
    has stderr "absent/images/000002.jpg"
    run 1 eval "$clips" -m "$model" "${one[@]}" --images "$set" --task text
    has stderr "video-text"
    run 1 eval "$images" -m "$root/tests/data/models/sam1-b" --images "$set"
    has stderr "no concept detector"
    sed 's/"width":336/"width":335/' "$images" >small.json
    run 1 eval small.json -m "$model" "${one[@]}" --images "$set"
    has stderr "small.json"
}
