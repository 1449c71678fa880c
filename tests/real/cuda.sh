#!/usr/bin/env bash
# tests/real/cuda.sh MODEL [BUILD]: the released model's tokens on the cuda tier, all 60 prompts of tests/real/golden with
# 128 tokens each, fed one at a time as generated tokens and 64 at a time as a prompt. By hand, on a machine with a card: it
# needs no network, MODEL being SmolLM2-135M-Instruct.Q4_1.gguf, and of the build zinc and tests/peer/compare_logits (make
# all build/tests/peer/compare_logits). TIER=vulkan takes another tier, REAL_NAMES='(code|list)' fewer prompts.
# Closes with the totals that doc/real-model.md has, and with exit 1 where tokens differ.
model=${1:?usage: tests/real/cuda.sh MODEL [BUILD]}
cd "$(dirname "$0")/../.." || exit 1
export ZINC_BUILD=${2:-build}
. tests/real/lib.sh
. tests/real/same_tokens.sh
real_model=$model tier=${TIER:-cuda}

echo "$real_model_sha256  $real_model" | sha256sum -c --status || skip "$real_model is not the released $real_model_file"
"$zinc" check 2>/dev/null | grep -E "^tier *$tier *yes" || skip "no $tier tier here: $("$zinc" check 2>/dev/null | grep "^tier *$tier ")"

for name in $(golden_names); do
    take_prompt "$name" || continue
    follow "$name" prompt --tier "$tier" --force-rows 64 && judge "$name" prompt $limit_int8
    follow "$name" decode --tier "$tier" && judge "$name" decode $limit_int8 && alone "$name" decode --tier "$tier"
done
for out in decode prompt; do echo "$tier $out: $(total $out)"; done
finish
