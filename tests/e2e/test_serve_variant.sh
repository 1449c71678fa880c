#!/usr/bin/env bash
# zinc serve --batch-variant: what is said of it where it has kernels for few rows of many slots, and where it has none.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
make_model qwen3 Q8_0 "$work/m.gguf" || finish
fingerprint() # of an answer
{
    curl -s -H 'Content-Type: application/json' "$url/v1/completions" -d '{"prompt":[5,6,7],"max_tokens":2,"ignore_eos":true}' |
        grep -o '"system_fingerprint":"[^"]*"' | cut -d'"' -f4
}

serve many -m "$work/m.gguf" --tier lockstep --ctx 64 --slots 9 --batch-variant || finish
[[ "$(fingerprint)" == zinc-*-lockstep-batch-variant ]] || miss "9 slots: fingerprint $(fingerprint)"
grep -q '9 slots of 64 tokens, steps of up to 8 rows by kernels of their own' "$work/many.log" || miss "9 slots: $(cat "$work/many.log")"

serve few -m "$work/m.gguf" --tier lockstep --ctx 64 --slots 8 --batch-variant || finish
[[ "$(fingerprint)" == zinc-*-lockstep ]] || miss "8 slots: fingerprint $(fingerprint)"
grep -q 'batch-variant changes nothing here' "$work/few.log" || miss "8 slots: $(cat "$work/few.log")"

serve cpu -m "$work/m.gguf" --tier cpu --ctx 64 --slots 9 --batch-variant || finish
[[ "$(fingerprint)" == zinc-*-cpu ]] || miss "cpu: fingerprint $(fingerprint)"
grep -q 'batch-variant changes nothing here' "$work/cpu.log" || miss "cpu: $(cat "$work/cpu.log")"

serve plain -m "$work/m.gguf" --tier lockstep --ctx 64 --slots 9 || finish
[[ "$(fingerprint)" == zinc-*-lockstep ]] || miss "without the option: fingerprint $(fingerprint)"
grep -q 'kernels of their own\|batch-variant' "$work/plain.log" && miss "without the option: $(cat "$work/plain.log")"
finish
