#!/usr/bin/env bash
# tools/models_page.sh: runs every family in its usual type on every tier that this machine can run, every type on every tier in one
# family, and every family in every type on the cpu tier; writes what came of it to doc/models.tsv and from that doc/models.md. Lines
# of doc/models.tsv that are there already are not run again: remove the file, or some of its lines, for new ones.
#
# The models are mkmodel's tiny ones, with random weights: what is compared is the arithmetic. JOBS=N: so many at a time (one per core).
set -u
cd "$(dirname "$0")/.." || exit 1
build=${ZINC_BUILD:-build} tsv=doc/models.tsv page=doc/models.md
export build work
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export -n ZINC_BUILD
export ZINC_VULKAN_CACHE=$work XDG_CACHE_HOME=$work
touch "$tsv"

presets() { "$build/mkmodel" --list | awk '/^tiny-/ { print substr($1, 6), $2 }'; }
types() { "$build/quantize" in out Q8_0 --tensor-type '*=NONE' 2>&1 | sed 's/.*known: //'; }
tiers="cpu lockstep vulkan kfd umq cs metal"
usual() { case $1 in gpt-oss) echo MXFP4_MOE ;; qwen35moe) echo UD_Q4_K_XL ;; *) echo Q4_K_M ;; esac; }
wanted() # lines "MODEL TYPE TIER"
{
    local model family type tier
    presets | while read -r model family; do
        for tier in $tiers; do echo "$model $(usual "$model") $tier"; done
        for type in $(types); do echo "$model $type cpu"; done
    done
    for type in $(types); do for tier in lockstep vulkan kfd metal; do echo "qwen3 $type $tier"; done; done
}

# one MODEL TYPE TIER...: a line for each tier, steps, same tokens, ties, worst NMSE; or "-" and why not
one()
{
    local model=$1 type=$2 tier sim against line file
    shift 2
    file=$(mktemp "$work/XXXXXX.gguf")
    if ! "$build/mkmodel" "tiny-$model" "$file" --type "$type" >/dev/null 2>"$file.log"; then
        for tier; do printf '%s\t%s\t%s\t-\t%s\n' "$model" "$type" "$tier" "$(tail -n 1 "$file.log" | sed 's/^mkmodel: //')"; done
        rm -f "$file"*
        return
    fi
    for tier; do
        sim= against=cpu
        case $tier in
        cpu) against=cpu:exact ;;
        kfd | umq | cs) sim=$build/amdsim ;;
        metal) sim=$build/metalsim ;;
        esac
        line=$(timeout 300 $sim "$build/zinc" validate -q -m "$file" --tier "$tier" --against $against --prompt-tokens 11,300,7,92 -n 3 --ctx 64 \
            --chunk 16 --tol 1 --keep-going 2>&1 | tail -n 1)
        case $line in
        equal:* | DIFFERENT:*) line=$(sed -n 's/.*: \([0-9]*\) steps, \([0-9]*\) same, \([0-9]*\) ties.*worst \([-+.e0-9]*\) at.*/\1\t\2\t\3\t\4/p' <<<"$line") ;;
        *) line=$(printf -- '-\t%s' "$(sed "s/^zinc: //; s|$file|the file|" <<<"${line:-no answer in 300 s}" | tr '\t' ' ' | cut -c 1-160)") ;;
        esac
        printf '%s\t%s\t%s\t%s\n' "$model" "$type" "$tier" "$line" # in one piece: others write there too
    done
    rm -f "$file"*
}
export -f one

wanted | sort -u | awk -F '[ \t]' 'FILENAME != "-" { there[$1 " " $2 " " $3] = $4 != "-"; next } !there[$0] { k = $1 " " $2; t[k] = t[k] " " $3 }
    END { for (k in t) print k t[k] }' "$tsv" - | sort | xargs -r -P "${JOBS:-$(nproc)}" -L 1 bash -c 'one "$@"' one >>"$tsv"
tac "$tsv" | awk -F '\t' '!seen[$1 FS $2 FS $3]++' | LC_ALL=C sort >"$work/tsv" && cp "$work/tsv" "$tsv" # the newest of each

# table ROWS COLUMNS KEY: from the lines of the table, markdown; KEY says which of MODEL, TYPE, TIER the rows and columns are
table()
{
    awk -F '\t' -v rows="$1" -v columns="$2" -v key="$3" -v usual="$4" '
        function of(r, c) { return key == "model tier" ? r "\t" u[r] "\t" c : key == "type tier" ? "qwen3\t" r "\t" c : c "\t" r "\tcpu" }
        function cell(k) {
            if (!(k in v)) return " "
            split(v[k], f, "\t")
            if (f[1] == "-") return "-"
            return (f[2] == f[1] ? f[1] : f[2] + f[3] == f[1] ? f[2] "+" f[3] : "**" f[2] " of " f[1] "**") ", " sprintf("%.0e", f[4])
        }
        BEGIN { n = split(usual, p, " "); for (i = 1; i < n; i += 2) u[p[i]] = p[i + 1] }
        { v[$1 "\t" $2 "\t" $3] = $4 "\t" $5 "\t" $6 "\t" $7 }
        END {
            nr = split(rows, r, " "); nc = split(columns, c, " ")
            printf "| |"; for (j = 1; j <= nc; j++) printf " %s |", c[j]; printf "\n|---|"; for (j = 1; j <= nc; j++) printf "---|"; print ""
            for (i = 1; i <= nr; i++) {
                printf "| %s%s |", r[i], key == "model tier" ? " " u[r[i]] : ""
                for (j = 1; j <= nc; j++) printf " %s |", cell(of(r[i], c[j])); print ""
            }
        }' "$tsv"
}
# What the speed log's first table of one GPU has, without the peer's numbers.
gpu_speeds()
{
    printf '| cuda, one H200, tokens a second (doc/speed-log.md) | prompt of 512 | prompt of 4,096 | generation of 128 |\n|---|---:|---:|---:|\n'
    awk -F ' *[|] *' '/^## /{ mine = /^## GPU: one H200/ } /^### /{ mine = 0 }
        mine && $2 ~ /^[a-z]/ { for (i = 3; i <= 7; i++) sub(/ [(].*/, "", $i); printf "| %s | %s | %s | %s |\n", $2, $6, $7, $3 }' doc/speed-log.md
    echo
}
models=$(presets | cut -d ' ' -f 1 | tr '\n' ' ')
usuals=$(for m in $models; do printf '%s %s ' "$m" "$(usual "$m")"; done)
{
    cat <<'END'
# Models: families, types, tiers

<!-- made by `make models-page` (tools/models_page.sh) from doc/models.tsv: do not edit -->

What was run here, and what came of it. The models are `mkmodel`'s tiny ones, which have each family's layers and random weights; four tokens of a
prompt and three more, `zinc validate` against the cpu tier, the cpu tier against itself in double precision (`cpu:exact`). A cell has the
steps in which the tier chose the reference's token and the largest NMSE of their logits: `4, 4e-04`. `3+1`: one was a tie, two logits closer than
the error. What int8 activations cost is in the cpu column (5e-4 is usual with random weights); tiers whose prompts have bf16 or f16 activations differ from
the cpu tier by as much. `-`: it was refused; why stands at the end. An empty cell was not run; below each table stands why.

cpu, lockstep and vulkan (Mesa's lavapipe) ran on a CPU; kfd, umq and cs on [amdsim](amdsim.md), metal on [metalsim](metalsim.md), which execute
the same machine code and texts that cards get. Speeds of these say nothing about cards and are left out; cuda has no column, because it needs a card:
its op table and families were run on an H100 and an H200 (doc/speed-log.md, which also has its speeds).

END
    gpu_speeds
    printf '## Families by tier\n\n'
    table "$models" "$tiers" "model tier" "$usuals"
    printf '\nEach in the type that files of its family usually have; the other types share its kernels, family by family on the cpu tier below.\n'
    printf '\n## Types by tier\n\n'
    table "$(types)" "cpu lockstep vulkan kfd metal" "type tier" "$usuals"
    printf '\nIn tiny-qwen3. umq and cs launch the code that kfd launches, in other queues: one type each above.\n'
    printf '\n## Families by type\n\n'
    table "$(types)" "$models" "type model" "$usuals"
    printf '\nThe cpu tier against `cpu:exact`. Types of codebooks and ternary ones have random codes there. Rows that are no multiple of 256\n'
    printf 'have the nearest type with blocks of 32 in place of one of 256 (qwen3-ragged).\n'
    printf 'Where a router takes another expert, because two lie closer than the error, a step has 1e-02 or more (gemma4-moe in NVFP4, llama-moe in IQ2_XS).\n'
    printf 'The NVFP4 files have numbers beside their matrices, but none beside experts: those (`mkmodel --expert-scales`), which every tier applies, are `tests/e2e/test_scales.c`'"'"'s.\n'
    printf '\n## Refused\n\n'
    awk -F '\t' '$4 == "-" { printf "- %s, %s in %s: %s\n", $3, $1, $2, $5; n++ } END { if (!n) print "Nothing." }' "$tsv"
} >"$page"
echo "$page: $(wc -l <"$tsv") runs, $(awk -F '\t' '$4 == "-"' "$tsv" | wc -l) refused, $(awk -F '\t' '$4 != "-" && $5 + $6 < $4' "$tsv" | wc -l) with another token" >&2
