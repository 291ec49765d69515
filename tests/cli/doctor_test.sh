test_shows_machine_and_libraries() {
    run 0 doctor
    for word in sam3 system CPU instructions threads memory device GPU 'CPU kernels' OpenMP libspng libwebp; do
        has stdout "$word"
    done
    empty stderr
}

test_json_is_json() {
    run 0 doctor --json
    head -n 1 stdout | grep -qx '{' || fail "no JSON object"
    has stdout '"libraries"'
    has stdout '"CPU kernels"'
}

test_says_when_threads_are_left_unused() {
    [ "$(nproc)" -gt 1 ] || return 0
    OMP_NUM_THREADS=1 run 0 doctor
    has stdout "OMP_NUM_THREADS"
}

test_a_damaged_gpu_plugin_is_a_sentence() {
    echo "not a library" >plugin.so
    SAM3_CUDA_PLUGIN=$PWD/plugin.so run 0 doctor
    has stdout "none: the CUDA plug-in"
    empty stderr
}
