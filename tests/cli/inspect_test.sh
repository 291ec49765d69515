two_tensors='{"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"F16","shape":[4],"data_offsets":[24,32]},"__metadata__":{"maker":"nobody"}}'

test_shows_totals_types_and_metadata() {
    safetensors model.safetensors "$two_tensors" 32
    run 0 inspect model.safetensors
    has stdout "safetensors"
    has stdout "2, 10 values, 32 bytes"
    has stdout "f32: 1 tensors, 24 bytes"
    has stdout "f16: 1 tensors, 8 bytes"
    has stdout "maker = nobody"
    has stdout "not recognised"
    lacks stdout "a.weight  "
    empty stderr
}

test_lists_every_tensor_when_asked() {
    safetensors model.safetensors "$two_tensors" 32
    run 0 inspect model.safetensors --tensors
    grep -qE '^a\.weight +f32 +24 bytes +\[2, 3\]$' stdout || fail "no line for a.weight"
    grep -qE '^b +f16 +8 bytes +\[4\]$' stdout || fail "no line for b"
}

test_json_holds_the_same() {
    safetensors model.safetensors "$two_tensors" 32
    run 0 inspect model.safetensors --json --tensors
    has stdout '"tensor_count": 2'
    has stdout '"bytes": 32'
    has stdout '"maker": "nobody"'
    has stdout '"name": "a.weight"'
    has stdout '"model": null'
}

test_names_with_control_characters_are_shown_safely() {
    safetensors model.safetensors '{"x\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' 4
    run 0 inspect model.safetensors --tensors
    ! grep -q $'\e' stdout || fail "an escape character in the output"
}

test_wrong_files_give_a_sentence() {
    run 1 inspect absent.gguf
    has stderr "sam3: error: "
    has stderr "absent.gguf"
    empty stdout
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n' > pointer.safetensors
    run 1 inspect pointer.safetensors
    has stderr "git lfs pull"
    printf 'hello' > text.gguf
    run 1 inspect text.gguf
    has stderr "text.gguf"
    : > empty.gguf
    run 1 inspect empty.gguf
    has stderr "empty.gguf"
    mkdir folder
    run 1 inspect folder
    has stderr "folder"
    safetensors cut.safetensors "$two_tensors" 16
    run 1 inspect cut.safetensors
    has stderr "cut.safetensors"
}

test_check_says_that_a_strange_file_is_no_model() {
    safetensors model.safetensors "$two_tensors" 32
    run 0 inspect model.safetensors
    run 1 inspect model.safetensors --check
    has stderr "not complete"
    has stdout "missing"
    has stdout "not recognised"
    grep -qE "^missing +model\.safetensors: " stdout || fail "no sentence about the file"
}

test_files_of_other_programs_are_recognised_by_content() {
    local data
    data=$(dirname "${BASH_SOURCE[0]}")/../data/weights
    cp "$data/sam1-b.pth" model.gguf
    run 0 inspect model.gguf
    has stdout "PyTorch file"
    has stdout "SAM 1, Meta's names"
    run 0 inspect "$data/torch-5.pt" --tensors
    grep -qE '^complex +torch\.complex64 +96 bytes +\[3, 4\]$' stdout || fail "no line for the complex tensor"
    run 0 inspect "$data/ggml-3.ggml"
    has stdout "sam3.detector_config.text_config.vocab_size = "
    has stdout 'tokenizer.ggml.merges = ["a b</w>"'
}

test_a_pickle_that_asks_for_more_than_tensors_is_refused_by_name() {
    # A stored zip entry x/data.pkl with "os.system" in it, and the directory.
    printf 'PK\3\4\12\0\0\0\0\0\0\0\0\0\0\0\0\0\15\0\0\0\15\0\0\0\12\0\0\0x/data.pklcos\nsystem\n)R' >bad.pt
    printf 'PK\1\2\12\0\12\0\0\0\0\0\0\0\0\0\0\0\0\0\15\0\0\0\15\0\0\0\12\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x/data.pkl' >>bad.pt
    printf 'PK\5\6\0\0\0\0\1\0\1\0\70\0\0\0\65\0\0\0\0\0' >>bad.pt
    run 1 inspect bad.pt
    has stderr "asks for the Python object 'os.system'"
    has stderr "nothing was run"
}
