#!/usr/bin/env bash
# Vectors and scores of whole texts: on every tier that is here as --exact has them, and over HTTP as zinc embed prints them.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
export ZINC_VULKAN_CACHE=$work/cache XDG_CACHE_HOME=$work/xdg
prefix=
prompts=("$(ids 3 1)" "$(ids 20 2)" "$(ids 37 3)")

# vectors NAME MODEL [options]: of the prompts, a line each
vectors()
{
    local name=$1 model=$2
    shift 2
    $prefix "$zinc" embed -m "$model" --tokens -q "$@" "${prompts[@]}" >"$work/$name.v" 2>"$work/$name.log" ||
        miss "$name: exit $?: $(tail -n 1 "$work/$name.log")"
}

# near A B LIMIT: the same number of numbers, and their NMSE
near()
{
    paste -d ' ' "$work/$1.v" "$work/$2.v" | tr -d '[],' | awk -v limit="$3" '
        { n = NF / 2; e = all = 0
          for (i = 1; i <= n; i++) { e += ($i - $(n + i)) ^ 2; all += $i ^ 2 }
          if (!(all > 0 && e / all <= limit)) { printf "line %d: nmse %g; ", NR, e / all; bad = 1 } }
        END { exit bad || NR != 3 }' >"$work/near" || miss "$1 and $2: $(cat "$work/near")"
}

tiers="cpu lockstep"
for t in vulkan cuda; do
    "$zinc" check 2>/dev/null | grep -q "^tier *$t *yes" && tiers="$tiers $t"
done
amdsim=$build/amdsim
[ -x "$amdsim" ] && "$amdsim" "$zinc" check 2>/dev/null | grep -q '^tier *kfd *yes' && tiers="$tiers kfd"
echo "tiers: $tiers"
for m in embed rerank; do
    for type in F32 Q8_0; do
        make_model qwen3-$m $type "$work/$m-$type.gguf" || finish
        vectors exact "$work/$m-$type.gguf" --tier cpu:exact
        limit=1e-5
        [ $type = F32 ] || limit=4e-3 # as of logits: tests/e2e/test_cuda.sh
        [ $type-$m = Q8_0-rerank ] && limit=3e-2 # of two numbers
        for t in $tiers; do
            prefix=
            case $t-$type-$m in
            kfd-F32-* | vulkan-F32-* | kfd-*-rerank) continue ;; # slow, and the same kernels
            kfd-*) prefix=$amdsim ;;
            esac
            case $build-$t in */sanitize-kfd) continue ;; esac
            vectors "$t" "$work/$m-$type.gguf" --tier $t
            near exact "$t" $limit
        done
        prefix=
        vectors plain "$work/$m-$type.gguf" --tier cpu --no-fuse
        near exact plain $limit
    done
done

# Means need the last layer of every row.
vectors exact "$work/embed-Q8_0.gguf" --tier cpu:exact --pooling mean
for t in $tiers; do
    case $t in kfd | vulkan) continue ;; esac
    vectors "$t" "$work/embed-Q8_0.gguf" --tier $t --pooling mean --chunk 64
    near exact "$t" 4e-3
done

# ---- over HTTP: the same numbers ----
post()
{
    curl -s -m $patience -H 'Content-Type: application/json' "$url$1" -d "$2"
}
serve embed -m "$work/embed-Q8_0.gguf" --tier cpu --ctx 256 --slots 3 --name e --quiet || finish
"$zinc" embed -m "$work/embed-Q8_0.gguf" --tier cpu -q "The captain asked" "wheels" >"$work/cli.v"
post /v1/embeddings '{"input":["The captain asked","wheels"],"model":"e"}' >"$work/body"
grep -o '"embedding":\[[^]]*\]' "$work/body" | sed 's/.*\[/[/; s/,/, /g' >"$work/http.v"
cmp "$work/cli.v" "$work/http.v" || miss "vectors over HTTP are other ones: $(head -c 200 "$work/body")"
post /api/embed '{"input":"wheels"}' | grep -o '\[\[[^]]*' | tr -d '[' | sed 's/,/, /g; s/.*/[&]/' | cmp - <(tail -n 1 "$work/cli.v") ||
    miss "Ollama's vector is another one"
post /v1/chat/completions '{"messages":[{"role":"user","content":"hi"}]}' | grep -q 'see /v1/embeddings' || miss "it talks"
all_quiet embed "$url"
serve_end embed "$pid"
serve rerank -m "$work/rerank-Q8_0.gguf" --tier cpu --slots 3 --quiet || finish
"$zinc" embed -m "$work/rerank-Q8_0.gguf" --tier cpu -q --query "How far?" "eleven miles" "two wheels" "the bell" | sort -gr >"$work/cli.v"
post /v1/rerank '{"query":"How far?","documents":["eleven miles","two wheels","the bell"]}' >"$work/body"
grep -o '"relevance_score":[0-9.e-]*' "$work/body" | cut -d: -f2 >"$work/http.v"
paste -d ' ' "$work/cli.v" "$work/http.v" | awk '{ d = $1 - $2; if (d * d > 1e-14) exit 1 } END { exit NR != 3 }' ||
    miss "scores over HTTP are other ones: $(cat "$work/body") $(tr '\n' ' ' <"$work/cli.v")"
serve_end rerank "$pid"

# ---- what a file says, and what it does not ----
"$zinc" inspect "$work/embed-F32.gguf" | grep -q '^purpose .*embeddings.*last' || miss "inspect does not say the purpose of the file"
"$zinc" inspect "$work/rerank-F32.gguf" --json | grep -q '"pooling": "rank"' || miss "inspect --json does not say the purpose of the file"
make_model qwen3 F32 "$work/plain.gguf"
"$zinc" embed -m "$work/plain.gguf" --tokens 1,2 -q >"$work/out" 2>&1 && miss "a model for text makes vectors unasked"
grep -q "no 'qwen3.pooling_type'" "$work/out" || miss "a model for text: $(cat "$work/out")"
"$zinc" embed -m "$work/embed-F32.gguf" --query a b >"$work/out" 2>&1 && miss "a model for vectors ranks"
grep -q 'tokenizer.chat_template.rerank' "$work/out" || miss "a model for vectors: $(cat "$work/out")"
"$zinc" embed -m "$work/plain.gguf" --pooling last --dimensions 1000 a >"$work/out" 2>&1 && miss "1000 numbers of 256"
grep -q -- '--dimensions 1000: the vectors of plain have 256' "$work/out" || miss "too many numbers: $(cat "$work/out")"
finish
