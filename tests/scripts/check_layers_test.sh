#!/usr/bin/env bash
# check-layers on small trees: what it must find, and what it must leave alone.
set -euo pipefail
check=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# tree FILE INCLUDE: a tree of one file with one include.
tree() {
    rm -rf "${root:?}"/*
    mkdir -p "$root/$(dirname "$1")"
    printf '#include %s\n' "$2" > "$root/$1"
}
must_fail() {
    tree "$1" "$2"
    if output=$("$check" "$root" 2>&1); then echo "not found: $1 includes $2" >&2; exit 1; fi
    case $output in *"$1:1:"*) ;; *) echo "the place is missing in: $output" >&2; exit 1 ;; esac
}
must_pass() {
    tree "$1" "$2"
    "$check" "$root" || { echo "wrongly found: $1 includes $2" >&2; exit 1; }
}

must_fail src/models/vit.cpp '"engine/model.h"'
must_fail src/util/error.h '"runtime/tensor.h"'
must_fail src/nn/layers.cpp '"runtime/cpu/kernels.h"'
must_fail src/models/vit.cpp '<dnnl.hpp>'
must_fail src/runtime/ops.cpp '<oneapi/dnnl/dnnl.h>'
must_fail src/runtime/cpu/linear.cpp '<cuda_runtime.h>'
must_fail apps/cli/main.cpp '<libavformat/avformat.h>'
must_fail src/image/resize.cpp '<jpeglib.h>'
must_fail src/text/clean.cpp '"weights/quoted.h"'
must_fail include/sam3.h '"engine/model.h"'
must_fail include/sam3.h '<nlohmann/json.hpp>'
must_fail src/engine/model.cpp '"sam3.h"'
must_fail src/surprise/new.cpp '"util/error.h"'
must_pass src/models/vit.cpp '"nn/layers.h"'
must_pass src/runtime/cpu/linear.cpp '<dnnl.hpp>'
must_pass src/runtime/cuda/linear.cu '<cublasLt.h>'
must_pass media/video.cpp '<libavformat/avformat.h>'
must_pass src/api/sam3_api.cpp '"sam3.h"'
must_pass src/util/mapped_file.cpp '<sys/mman.h>'
must_pass apps/cli/doctor.cpp '"runtime/cpu/version.h"'
echo "check-layers finds what it must"
