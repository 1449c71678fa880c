#!/usr/bin/env bash
# SmolLM2-135M-Instruct as it was released: 576 wide rows, 9 heads on 3, tied embeddings, its own tokenizer and template;
# what inspect says of it, and that it answers on every tier. Its tokens: test_same_tokens_*.sh.
. tests/real/lib.sh
need_real model

# ---- inspect ----
"$zinc" inspect "$real_model" >"$work/inspect" 2>&1 || miss "inspect: $(tail -n 1 "$work/inspect")"
while read -r want; do
    tr -s ' ' <"$work/inspect" | grep -qF "$want" || miss "inspect does not say '$want': $(grep "^${want%% *}" "$work/inspect")"
done <<'WANT'
family llama
parameters 134515008 (0.13 billion) in 272 tensors
layers 30
width 576, FFN 1536
attention 9 heads, 3 KV heads, head size 64
context 8192; KV cache 22.50 KiB a token at f16
vocabulary 49152 tokens, gpt2 / smollm
chat template yes, 368 bytes
Q4_1 210 tensors 63.28 MiB
Q8_0 1 tensors 28.69 MiB
WANT
"$zinc" inspect --json --tensors "$real_model" >"$work/json" 2>"$work/log" || miss "inspect --json: $(tail -n 1 "$work/log")"
python3 - "$work/json" <<'PYTHON' || miss "inspect --json says something else"
import json, sys
j = json.load(open(sys.argv[1]))
m = j["model"]
want = {"layers": 30, "n_embd": 576, "n_vocab": 49152, "context": 8192, "n_ff": 1536, "n_head": 9, "n_head_kv": 3,
        "head_dim": 64, "kv_bytes_per_token_f16": 30 * 2 * 3 * 64 * 2, "parameters_used": 134515008, "tied_output": True}
wrong = {k: m.get(k) for k, v in want.items() if m.get(k) != v}
assert not wrong and j["runs"] and j["architecture"] == "llama" and j["pre_tokenizer"] == "smollm", (wrong, j["architecture"])
assert j["bytes"] == 98362432 and sum(t["tensors"] for t in j["types"].values()) == 272, j["types"]
PYTHON
"$zinc" inspect --tensors "$real_model" | grep -q '^Q8_0 .* token_embd.weight$' || miss "inspect --tensors: no token_embd.weight"
! "$zinc" inspect --tensors "$real_model" | grep -q ' output.weight$' || miss "an output matrix beside the embeddings"
"$zinc" check -m "$real_model" >"$work/check" 2>&1 || miss "check: $(tail -n 1 "$work/check")"

# ---- the template: what it renders is in tests/real/prompts, by jinja2 ----
# templated FILE [options of zinc run]: a message put into the format is the same prompt as the rendered text
templated()
{
    local file=tests/real/prompts/$1.txt
    shift
    "$zinc" run -q -m "$real_model" --tier cpu --temp 0 -n 24 -f "$file" --special --json >"$work/a.json" 2>"$work/log" ||
        miss "run: $(tail -n 1 "$work/log")"
    "$zinc" run -q -m "$real_model" --tier cpu --temp 0 -n 24 --chat --json "$@" >"$work/b.json" 2>"$work/log" ||
        miss "run --chat: $(tail -n 1 "$work/log")"
    python3 - "$work/a.json" "$work/b.json" <<'PYTHON' || miss "the prompt of --chat $* is not the template's"
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
same = all(a[k] == b[k] for k in ("prompt_tokens", "tokens", "logits", "end"))
assert same, [(x["prompt_tokens"], x["logits"], x["text"][:60]) for x in (a, b)]
assert a["model"] == "SmolLM2-135M-Instruct.Q4_1" and a["tier"] == "cpu" and len(a["tokens"]) <= 24
PYTHON
}
templated chat-20-eos --prompt "Reply with the single word OK."
templated chat-08-poem --prompt "Write a poem of eight lines about a lighthouse in fog."
templated chat-09-json --system "Answer only with JSON." \
    --prompt "Give me name, capital and population in millions of Norway, Sweden and Denmark."

# ---- an answer on every tier ----
# ask TIER [launcher]: the embeddings are read and multiplied with, as the same tensor, by each of them. Each of the seven
# tokens is preferred by 2.5 at least, several times what int8 adds; the capital of France is a tie (0.08) at the first.
ask()
{
    local tier=$1
    shift
    "$@" "$zinc" chat -q -m "$real_model" --tier "$tier" -c 256 --temp 0 -n 7 \
        --say "Who was the first president of the United States?" \
        >"$work/answer" 2>"$work/log" || { miss "$tier: chat: $(tail -n 1 "$work/log")"; return; }
    grep -qx 'The first president of the United States' "$work/answer" || miss "$tier: $(tr '\n' '/' <"$work/answer")"
}
ask cpu
ask cpu:exact
ask cpu:nofuse
if why=$(need_vulkan); then
    need_vulkan
    ask vulkan
else
    echo "skipped: 1 case: $why"
fi
if why=$(need_amdsim); then
    need_amdsim
    ask kfd "$amdsim"
else
    echo "skipped: 1 case: $why"
fi
if "$zinc" check 2>/dev/null | grep -q '^tier *cuda *yes'; then ask cuda; else echo "skipped: 1 case: no cuda tier here"; fi

# Two turns: the second sees the first.
printf 'My name is Ilse.\nWhat is my name?\n' | "$zinc" chat -q -m "$real_model" --tier cpu --temp 0 -n 32 >"$work/answer" \
    2>"$work/log" || miss "two turns: $(tail -n 1 "$work/log")"
tail -n 2 "$work/answer" | grep -q Ilse || miss "two turns: $(tr '\n' '/' <"$work/answer")"
finish
