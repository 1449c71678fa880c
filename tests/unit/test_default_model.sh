#!/usr/bin/env bash
# zinc model use: the model of commands that name none. Chosen, it is that one or a clear line; not chosen, the largest here that
# generates text and fits, which is told.
set -u
build=${ZINC_BUILD:-build}
zinc=$build/zinc
for p in "$zinc" "$build/mkmodel"; do
    [ -x "$p" ] || { echo "no $p: make first"; exit 77; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-default.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export -n ZINC_BUILD ZINC_SHARED 2>/dev/null
export ZINC_MODELS=$work/models ZINC_OFFLINE=1 HOME=$work
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}
# says STATUS WORDS COMMAND...: the status, and the words on stderr; for failures in one line, which is all
says()
{
    local want=$1 words=$2 rc
    shift 2
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    [ $rc -eq "$want" ] || miss "exit $rc, expected $want: $*: $(cat "$work/err")"
    [ -z "$words" ] || grep -qF -e "$words" "$work/err" || miss "stderr has no '$words': $*: $(cat "$work/err")"
    [ $want -eq 0 ] || [ "$(wc -l <"$work/err")" -eq 1 ] || miss "not one line: $*: $(cat "$work/err")"
}
# model: the path of what a command without -m opens
model() { "$zinc" inspect 2>"$work/err" | sed -n 's/^file *//p' | sed 's/ (.*//'; }
small=hf:me/r:small.gguf large=hf:me/r:large.gguf

# ---- nothing is here
says 2 'no model given: -m FILE; and none is here' "$zinc" run --prompt x
says 2 'zinc pull ' "$zinc" chat
says 1 'no default was chosen' "$zinc" model use
says 0 '' "$zinc" model use --none
says 2 'zinc model use' "$zinc" model list --none
[ ! -e "$ZINC_MODELS" ] || miss "asking for a default leaves a folder"

# ---- not chosen: what is here decides, and it is told
mkdir -p "$ZINC_MODELS/hf/me/r" "$work/elsewhere"
"$build/mkmodel" tiny-qwen3 "$ZINC_MODELS/hf/me/r/small.gguf" >/dev/null 2>&1 || miss "mkmodel"
says 0 "$small (" "$zinc" run --prompt x -n 1 --tier null
grep -qF 'the only one here' "$work/err" || miss "the reason is not told: $(cat "$work/err")"
"$build/mkmodel" tiny-qwen3moe "$ZINC_MODELS/hf/me/r/large.gguf" >/dev/null 2>&1 || miss "mkmodel"
[ "$(stat -c %s "$ZINC_MODELS/hf/me/r/large.gguf")" -gt "$(stat -c %s "$ZINC_MODELS/hf/me/r/small.gguf")" ] || miss "large is not the larger one"
head -c 9000000 /dev/zero >"$ZINC_MODELS/hf/me/r/zero.gguf" # no model, and larger than both
head -c 9000000 /dev/zero >"$ZINC_MODELS/hf/me/r/begun.gguf.part"
says 0 "$large (" "$zinc" run --prompt x -n 1 --tier null
grep -qF "the largest here that fits this machine's memory" "$work/err" || miss "the reason is not told: $(cat "$work/err")"
"$zinc" run --prompt x -n 1 --tier null -q 2>&1 >/dev/null | grep -q . && miss "-q is not quiet"

# ---- chosen
[ "$("$zinc" model use "$small")" = "$small" ] || miss "model use does not print the name"
[ "$(model)" = "$ZINC_MODELS/hf/me/r/small.gguf" ] || miss "the chosen one is not taken: $(model)"
[ -s "$work/err" ] && miss "a default that was chosen is told: $(cat "$work/err")"
[ "$("$zinc" model use)" = "$small" ] || miss "model use alone does not print it"
"$zinc" model list | grep -qE "^ .* $small +\(default\)$" || miss "list does not tell it: $("$zinc" model list)"
[ "$("$zinc" model list | grep -c default)" = 1 ] || miss "list tells several: $("$zinc" model list)"
"$zinc" model list --json | tr -d '\n' | grep -qE '"name": "'"$small"'"[^}]*"default": true' || miss "list --json: $("$zinc" model list --json)"
[ "$(cd / && "$OLDPWD/$zinc" model use "$ZINC_MODELS/hf/me/r/large.gguf" 2>/dev/null)" = "$large" ] ||
    [ "$("$zinc" model use "$ZINC_MODELS/hf/me/r/large.gguf")" = "$large" ] || miss "a path below the folder of models is not its name"
for command in "run --prompt-tokens 1,2 -n 1 --tier null" "run --tier null -n 1 --prompt a" "bench -p 0 -n 1 -r 1 --no-roof --tier null" \
    "graph --plan-only" tokenize detokenize "serve --help" "validate --a null --b null -n 1"; do
    timeout 60 "$zinc" $command </dev/null 2>&1 | grep -q 'no model' && miss "$command takes no default"
done
"$zinc" run 'two words' -n 1 --tier null 2>&1 | grep -qF '(qwen3moe,' || miss "a text alone is no prompt for the default"
says 1 "oneword" "$zinc" run oneword x -n 1 --tier null
"$zinc" graph -m "$small" --plan-only >"$work/out" 2>&1 || miss "graph takes no name: $(cat "$work/out")"

# ---- a file elsewhere; one that is gone; one that is none
cp "$ZINC_MODELS/hf/me/r/small.gguf" "$work/elsewhere/own model.gguf"
[ "$("$zinc" model use "$work/elsewhere/own model.gguf")" = "$work/elsewhere/own model.gguf" ] || miss "a path is not kept"
[ "$(model)" = "$work/elsewhere/own model.gguf" ] || miss "a file elsewhere is not taken: $(model)"
"$zinc" model list | grep -qE "own model.gguf +\(default\)$" || miss "list does not tell a file elsewhere"
rm "$work/elsewhere/own model.gguf"
says 1 "own model.gguf is gone: zinc model use" "$zinc" run --prompt x --tier null
"$zinc" model list | grep -qE '^ *gone .*own model.gguf' || miss "list does not tell that it is gone: $("$zinc" model list)"
"$zinc" model use "$large" >/dev/null
says 1 'not on this machine' "$zinc" model use hf:me/other:Q8_0
says 1 'not on this machine' "$zinc" model use hf:me/other:a.gguf
says 1 'zero.gguf' "$zinc" model use hf:me/r:zero.gguf
says 1 'No such file' "$zinc" model use "$work/no.gguf"
says 2 'without a name beside it' "$zinc" model use --none "$small"
[ "$("$zinc" model use)" = "$large" ] || miss "a refused choice changes the default"
"$zinc" model rm "$large"
says 1 "$large is gone" "$zinc" run --prompt x --tier null
"$zinc" model use --none
says 0 "$small (" "$zinc" run --prompt x -n 1 --tier null
for text in '' '\n' 'a\nb\n' 'a\0b' '\033[1m'; do
    printf "$text" >"$ZINC_MODELS/default"
    says 1 'zinc model use NAME writes it anew' "$zinc" run --prompt x --tier null
    says 1 'zinc model use NAME writes it anew' "$zinc" model list
done
"$zinc" model use "$small" >/dev/null && [ "$("$zinc" model use)" = "$small" ] || miss "a damaged default is not written anew"
[ -z "$(find "$ZINC_MODELS" -name 'default.*')" ] || miss "left behind: $(find "$ZINC_MODELS" -name 'default.*')"

[ $misses -eq 0 ] || { echo "$misses missed"; exit 1; }
