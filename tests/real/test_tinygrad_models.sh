#!/usr/bin/env bash
# tinygrad reads a GGUF file, dequantises it and runs the model by kernels of its own making, on the model of a
# gfx1201; zinc runs the same file on the processor in double precision. Same tokens, and logits within a hundredth of
# the largest (tinygrad computes in f32, and keeps keys and values in f16 as zinc does): two programs that share no
# line agree on the file, the architecture and the card. With TINYGRAD_FULL=1 more families and types, and a gfx1100.
. tests/real/lib.sh
. tests/real/tinygrad.sh
prompt=1,5,9,33,7
export AMD_AQL=0 AMD_DISABLE_SDMA=0 CACHEDB=$work/models.db

same_tokens() # GPU FAMILY TYPE N
{
    local gpu=$1 name="$1 $2 $3" model=$work/$2-$3.gguf want got ours=$work/zinc theirs=$work/tinygrad before=$misses
    make_model "$2" "$3" "$model" || return
    want=$("$zinc" run -m "$model" --tier cpu:exact --prompt-tokens $prompt -n "$4" --temp 0 --ignore-eos \
        --print-tokens --dump-logits "$ours" 2>"$work/log") || { miss "zinc run: $(tail -n 1 "$work/log")"; return; }
    if ! timeout 1200 "$amdsim" --plain-offsets --gpu "$gpu" "$real_python" tests/real/tinygrad_model.py "$model" $prompt "$4" \
        "$theirs" >"$work/out" 2>"$work/log"; then
        miss "$name: $(tr '\r' '\n' <"$work/log" | grep -v compiling | tail -n 3)"
        return
    fi
    got=$(tail -n 1 "$work/out")
    [ "$got" = "$want" ] || miss "$name: tokens $got, zinc's are $want"
    "$real_python" - "$ours" "$theirs" <<'PY' || miss "$name: the logits differ"
import sys
import numpy as np
theirs = np.fromfile(sys.argv[2], np.float32)
ours = np.fromfile(sys.argv[1], np.float32)[:theirs.size]
worst, limit = np.abs(ours - theirs).max(), 0.01 * np.abs(ours).max()
print(f"  {theirs.size} logits, largest {np.abs(ours).max():.3f}, differ by {worst:.5f} at most, limit {limit:.5f}")
sys.exit(not worst <= limit)
PY
    [ $misses -ne "$before" ] || echo "ok    $name: $got"
    rm -f "$model"
}

same_tokens gfx1201 qwen3 Q8_0 4
if [ -n "${TINYGRAD_FULL:-}" ]; then
    for gpu in gfx1201 gfx1100; do
        for what in "qwen3 Q4_K_M" "llama Q4_0" "llama3 Q5_1" "qwen3moe Q8_0" "qwen35 Q8_0" "llama-moe Q6_K"; do
            same_tokens $gpu $what 12
        done
    done
fi
finish
