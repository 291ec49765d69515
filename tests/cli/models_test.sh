# `sam3 models`: by name, in every place they may be; fetched from a local stand-in for Hugging Face's server.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=$root/models/sam3-shapes.gguf
export HOME=$PWD/home
unset XDG_DATA_HOME XDG_CACHE_HOME HF_HOME HF_HUB_CACHE HF_ENDPOINT HF_TOKEN SAM3_MODEL SAM3_MODELS
mkdir -p "$HOME"

# serve OPTION...: the repository hub/ at $endpoint; requests are in the file requests
serve() {
    rm -f port
    python3 "$root/tests/cli/hub_server.py" hub port "$@" >requests 2>server.log &
    server=$!
    trap 'kill $server; rm -rf "$folder"' EXIT
    for _ in $(seq 500); do [ -s port ] && break || sleep 0.02; done
    endpoint=http://127.0.0.1:$(cat port)
}
hub() {
    mkdir -p hub
    cp "$model" hub/shapes.gguf
    echo '{"a": 1}' >hub/config.json
    echo 'read me' >hub/README.md
}
# Without libcurl there is nothing to test but the sentence.
needs_curl() {
    run 1 models pull test/shapes --endpoint http://127.0.0.1:9
    if grep -q libcurl stderr; then echo "skipped: this build has no libcurl"; exit 0; fi
}

test_nothing_is_found_in_an_empty_home() {
    run 0 models list
    has stdout "no models were found"
    run 1 models path sam3
    has stderr "sam3: expected the path or the name of a model"
    has stderr "home/.local/share/sam3/models"
    run 1 segment -m sam3 "$root/assets/scene-04.png" -t star -f none
    has stderr "sam3 models list"
}

test_every_place_is_looked_into() {
    mkdir -p models given "$HOME/.local/share/sam3/models/facebook/tiny" "$HOME/.cache/huggingface/hub/models--org--cached/snapshots/abc"
    cp "$model" models/here.gguf
    cp "$model" given/first.gguf
    cp "$root"/tests/data/models/sam1-b/* "$HOME/.local/share/sam3/models/facebook/tiny/"
    cp "$root"/tests/data/models/sam1-b/* "$HOME/.cache/huggingface/hub/models--org--cached/snapshots/abc/"
    export SAM3_MODELS=$PWD/given:$PWD/absent
    run 0 models list
    for name in here first facebook/tiny org/cached; do has stdout "$name "; done
    run 0 models list --json
    python3 -c 'import json; names = [m["name"] for m in json.load(open("stdout"))]; assert names == ["first", "facebook/tiny", "here", "org/cached"], names'
    run 0 models path cached
    has stdout "snapshots/abc"
    run 0 models path here.gguf
    run 0 segment -m tiny "$root/assets/scene-04.png" --point 100,100 -f none
    run 0 segment -m here "$root/assets/scene-04.png" -t star -f none
    SAM3_MODEL=here run 0 segment "$root/assets/scene-04.png" -t star -f none
    run 2 segment "$root/assets/scene-04.png" -t star -f none
}

test_pull_fetches_checks_and_names() {
    needs_curl
    hub
    serve
    run 0 models pull test/shapes --endpoint "$endpoint" --dry-run
    has stdout "config.json"
    lacks stdout "README"
    [ ! -e "$HOME/.local/share/sam3/models/test" ] || fail "a dry run wrote something"
    run 0 models pull test/shapes --endpoint "$endpoint"
    cmp "$HOME/.local/share/sam3/models/test/shapes/shapes.gguf" "$model"
    [ ! -e "$HOME/.local/share/sam3/models/test/shapes/README.md" ] || fail "fetched more than is needed"
    : >requests
    HF_ENDPOINT=$endpoint run 0 models pull test/shapes
    lacks requests "/blobs/"
    run 0 models pull test/shapes README.md 'conf*' --endpoint "$endpoint" -o elsewhere
    [ "$(ls elsewhere)" = "$(printf 'README.md\nconfig.json\nsam3-checksums.json')" ] || fail "found $(ls elsewhere)"
    run 1 models pull test/shapes nothing.bin --endpoint "$endpoint"
    has stderr "has no file 'nothing.bin'"
    run 1 models pull test/other --endpoint "$endpoint"
    has stderr "404"
    run 2 models pull shapes --endpoint "$endpoint"
    has stderr "ORGANISATION/NAME"
}

test_pull_goes_on_where_it_was() {
    needs_curl
    hub
    serve --break-after 100000
    run 1 models pull test/shapes --endpoint "$endpoint" -o out
    has stderr "goes on where it was"
    [ "$(stat -c %s out/shapes.gguf.part)" = 100000 ] || fail "the part was not kept"
    [ ! -e out/shapes.gguf ] || fail "a part got the file's name"
    run 0 models pull test/shapes --endpoint "$endpoint" -o out
    has requests "bytes=100000-"
    cmp out/shapes.gguf "$model"
}

test_pull_begins_again_where_ranges_are_unknown() {
    needs_curl
    hub
    serve --no-ranges
    mkdir out
    head -c 5000 "$model" >out/shapes.gguf.part
    run 0 models pull test/shapes --endpoint "$endpoint" -o out
    cmp out/shapes.gguf "$model"
}

test_pull_refuses_damage_and_tricks() {
    needs_curl
    hub
    serve --damage shapes.gguf
    run 1 models pull test/shapes --endpoint "$endpoint" -o out
    has stderr "damaged"
    [ ! -e out/shapes.gguf ] && [ ! -e out/shapes.gguf.part ] || fail "a damaged file was left"
    kill "$server"
    serve --damage config.json
    run 1 models pull test/shapes --endpoint "$endpoint" -o out2
    has stderr "config.json: the file that came is damaged"
    kill "$server"
    serve --evil
    run 1 models pull test/shapes --endpoint "$endpoint" -o out3
    has stderr "leave its folder"
}

test_pull_sends_the_token() {
    needs_curl
    hub
    serve --token secret
    run 1 models pull test/shapes --endpoint "$endpoint" -o out
    has stderr "HF_TOKEN"
    HF_TOKEN=secret run 0 models pull test/shapes --endpoint "$endpoint" -o out
    cmp out/shapes.gguf "$model"
}

test_verify_finds_damage() {
    run 0 models verify "$model"
    has stdout "no checksum known"
    has stdout "tensors"
    mkdir -p hub/blobs "hub/snapshots/abc"
    local sum
    sum=$(sha256sum <"$model" | cut -d' ' -f1)
    cp "$model" "hub/blobs/$sum"
    ln -s "../../blobs/$sum" hub/snapshots/abc/shapes.gguf
    run 0 models verify hub/snapshots/abc/shapes.gguf
    has stdout "good"
    printf x | dd of="hub/blobs/$sum" bs=1 seek=200000 conv=notrunc status=none
    run 1 models verify hub/snapshots/abc/shapes.gguf
    has stdout "DAMAGED"
}
