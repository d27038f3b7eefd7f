#!/usr/bin/env bash
# What is measured when a GPU is there, the most important first; each step keeps its JSON at once.
#
#   bash benchmarks/gpu.sh [--cpu] [STEP ...]      each step has a time limit, in seconds, below
#
# Results lie in benchmarks/results/NAME_gpu.json, logs beside them in build/gpu. A step that fails
# or runs out of time is named at the end, and the next one begins. --cpu tries the steps at toy sizes
# without a GPU, into build/gpu. PYTHON: the interpreter, by default that of .venv.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
results=benchmarks/results logs=build/gpu toy=
[ "${1:-}" = --cpu ] && { toy=1; shift; results=$logs; export CUDA_VISIBLE_DEVICES=; }
mkdir -p "$results" "$logs"
asked=" $* " failed=()

# step NAME SECONDS WORDS... [-- WORDS at toy sizes]: run a benchmark within a time
step() {
    local name=$1 limit=$2
    shift 2
    [ "$asked" = "  " ] || [[ $asked = *" $name "* ]] || return 0
    local words=() small=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do words+=("$1"); shift; done
    [ $# -gt 0 ] && { shift; small=("$@"); }
    [ -n "$toy" ] && words=("${words[0]}" "${small[@]}")
    echo "== $name: ${words[*]}"
    timeout "$limit" "$python" -m "${words[@]}" --json "$results/${name}_gpu.json" 2>&1 |
        tee "$logs/$name.log" || failed+=("$name")
}

step correctness 900 benchmarks.correctness --time 256 2304 --jobs 8 \
    -- --time 96 --encodings rope bipe_alibi fox
step attention 180 benchmarks.attention --time 1024 2048 4096 8192 --batch 8 \
    -- --time 128 --repeats 1 --heads 2
step step_151m 420 benchmarks.step --model 151M --time 1024 --batch 32 \
    -- --time 64 --batch 1 --rounds 1 --only "ours BiPE-RoPE"
step step_151m_8192 420 benchmarks.step --model 151M --time 8192 --batch 4 \
    -- --time 128 --batch 1 --rounds 1 --only "ours BiPE-RoPE"
step decode 240 benchmarks.decode --rounds 3 \
    -- --prompt 8 --new 4 --rounds 1 --only "ours BiPE-RoPE static, batch 1"
step prefill 180 benchmarks.decode --prefill 8192 32768 --rounds 1 \
    -- --prefill 256 --rounds 1
step step_20m 300 benchmarks.step --time 1024 --batch 64 \
    -- --time 64 --batch 1 --rounds 1 --only "ours RoPE compiled"

[ ${#failed[@]} -eq 0 ] || { echo "failed or out of time: ${failed[*]}"; exit 1; }
