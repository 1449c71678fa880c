#!/usr/bin/env bash
# Token ids and texts are those of the released tokenizers (Hugging Face's tokenizers, tiktoken, sentencepiece), for
# the vocabularies of ../shared and SmolLM2's. ids.py says what is compared.
. tests/real/lib.sh
need_real ids
export PYTHONDONTWRITEBYTECODE=1

vocabularies=()
for v in gemma-4 gpt-2 llama-bpe llama-spm qwen2 qwen35; do
    v=${ZINC_SHARED:-../shared}/vocab/ggml-vocab-$v.gguf
    [ ! -e "$v" ] || vocabularies+=("$v")
done
absent=$((6 - ${#vocabularies[@]}))
if real_locate model; then
    vocabularies+=("$real_model")
else
    [ ${#vocabularies[@]} -gt 0 ] || skip "no vocabularies (set ZINC_SHARED), and no model: $real_missing"
    echo "skipped: 1 case: SmolLM2's vocabulary: $real_missing"
fi
[ $absent -eq 0 ] || echo "skipped: $absent cases: not in ${ZINC_SHARED:-../shared}/vocab (set ZINC_SHARED)"

timeout 1500 "$real_python" tests/real/ids.py "$zinc" "${vocabularies[@]}" || miss "ids.py: exit $?"
finish
