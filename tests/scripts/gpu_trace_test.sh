# bench/gpu_trace.py on a made-up trace: a kernel that starts early is charged only for what it adds.
set -euo pipefail
summary=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "gpu_trace_test: $*" >&2; cat "$folder/said" >&2; exit 1; }

# start, length, stream, blocks, name: the second begins 30 us before the first ends; the third after a gap of 20 us
printf '%s\t%s\t7\t%s\t%s\n' \
    0 100000 132 'void sam3::cuda::(anonymous namespace)::first_kernel(int)' \
    70000 80000 324 'void sam3::cuda::hopper::second_kernel<2>(int)' \
    170000 10000 1 memcpy >"$folder/trace.tsv"
python3 "$summary" "$folder/trace.tsv" >"$folder/said"
grep -q '^busy for 0.2 of 0.2 ms' "$folder/said" || fail "expected the time that the GPU was busy"
grep -qE '^ +1 +100\.0 +100\.0 +62\.5% +132 +first_kernel\(int\)$' "$folder/said" || fail "expected the first kernel, whole"
grep -qE '^ +1 +50\.0 +80\.0 +31\.2% +324 +second_kernel<2>\(int\)$' "$folder/said" || fail "expected 50 of the second's 80 us"
grep -qE '^ +1 +10\.0 +10\.0 +6\.2% +1 +memcpy$' "$folder/said" || fail "expected the copy without the gap before it"

python3 "$summary" "$folder/trace.tsv" --rows 1 >"$folder/said"
[ "$(grep -c kernel "$folder/said")" = 2 ] || fail "expected the head and one row"
: >"$folder/empty.tsv"
! python3 "$summary" "$folder/empty.tsv" >"$folder/said" 2>&1 || fail "expected a failure for a trace with nothing in it"
grep -q 'nothing ran on a GPU' "$folder/said" || fail "expected a sentence about it"
