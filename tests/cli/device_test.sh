# Which device a command runs on. The stand-in for a GPU (tests/stand_in) shows on any machine what happens where there is one.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
stand_in=$(dirname "$program")/libsam3_stand_in.so
model=$root/models/sam3-shapes.gguf
segment=(segment -m "$model" -i "$root/assets/squares.jpg" -t square --image-size 168 --threshold 0.3 -o out -f csv --overwrite)

test_auto_takes_a_gpu_that_is_there() {
    SAM3_DEVICE= SAM3_CUDA_PLUGIN=$stand_in run 0 doctor
    grep -qE '^device +stand-in for a GPU, bf16$' stdout || fail "expected the GPU to be taken"
    SAM3_DEVICE=cpu SAM3_CUDA_PLUGIN=$stand_in run 0 doctor
    grep -qE '^device +cpu, f32$' stdout || fail "expected the CPU, as SAM3_DEVICE says"
    SAM3_DEVICE= SAM3_CUDA_PLUGIN=$PWD/absent.so run 0 doctor
    grep -qE '^device +cpu, f32$' stdout || fail "expected the CPU where there is no GPU"
    empty stderr
}

# A plug-in that cannot be loaded tells whether somebody tried.
test_without_a_driver_the_plugin_is_left_alone() {
    cp "$program" sam3
    echo "not a library" >libsam3_cuda.so
    local said="there is no NVIDIA driver"
    ! python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null || said="the CUDA plug-in cannot be loaded"
    program=$PWD/sam3 SAM3_DEVICE= run 0 doctor
    has stdout "$said"
    grep -qE '^device +cpu, f32$' stdout || fail "expected the CPU where there is no GPU"
}

test_a_gpu_gives_the_answers_of_the_cpu() {
    run 0 "${segment[@]}" --device cpu
    mv stdout expected
    SAM3_CUDA_PLUGIN=$stand_in run 0 "${segment[@]}" --device cuda:0 --precision f32
    cmp expected stdout || fail "expected the same answers"
    SAM3_CUDA_PLUGIN=$stand_in run 0 bench -m "$model" --device cuda --task click --runs 1 --warmup 0 --json
    has stdout '"device": "stand-in for a GPU"'
    has stdout '"precision": "bf16"'
}

test_what_cannot_be_had_is_a_sentence() {
    SAM3_CUDA_PLUGIN=$PWD/absent.so run 1 "${segment[@]}" --device cuda
    has stderr "there is no GPU to run on: the CUDA plug-in $PWD/absent.so was not found"
    echo "not a library" >plugin.so
    SAM3_CUDA_PLUGIN=$PWD/plugin.so run 1 "${segment[@]}" --device cuda
    has stderr "the CUDA plug-in cannot be loaded"
    SAM3_CUDA_PLUGIN=$stand_in run 1 "${segment[@]}" --device cuda:1
    has stderr "there is no GPU 1: CUDA counts from 0 and finds 1"
    SAM3_CUDA_PLUGIN=$stand_in run 1 "${segment[@]}" --device cuda --precision int8
    has stderr "does not compute in int8: it has f32, bf16"
    run 2 "${segment[@]}" --device abacus
    has stderr "abacus"
}
