#!/usr/bin/env bash
# zinc bench --report: one file that is JSON with all its parts, and a message where it cannot be written. --streams: all
# values for each number of streams.
. tests/e2e/lib.sh
make_model qwen3 Q8_0 "$work/m.gguf" || finish
bench() { "$zinc" bench -m "$work/m.gguf" --tier cpu -p 16 -n 4 -r 1 --no-roof "$@" 2>"$work/log"; }

bench --report "$work/r.json" >"$work/out" || miss "bench --report: $(tail -n 1 "$work/log")"
grep -q '^tg4 ' "$work/out" || miss "no speeds on standard output"
for part in zinc host tiers model device bench check; do
    grep -q "^ \"$part\":" "$work/r.json" || miss "the report has no $part"
done
grep -q '"profiles": \[' "$work/r.json" || miss "the report has no profile"
grep -q '"kernel": "GATE_UP"' "$work/r.json" || miss "the profile has no kernels"
bench --report "$work/none/r.json" >/dev/null && miss "a report in a folder that is not there was written"
grep -q 'could not be written' "$work/log" || miss "no message: $(tail -n 1 "$work/log")"
bench --report "$work/r.json" --profile >/dev/null && miss "--report with --profile was taken"
# a table that is full, but for the rows of --startup
full=(-p 0 -n 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 -d 0,1,2,3)
bench "${full[@]}" --startup >/dev/null && miss "64 measurements and --startup were taken"
grep -q 'more than 62 measurements' "$work/log" || miss "64 measurements and --startup: $(tail -n 1 "$work/log")"
bench --json >"$work/j.json" && grep -q '"test": "pp16"' "$work/j.json" || miss "--json has no rows"
# prompts have a share of what products give, never of memory, and nothing has more than all of its roof
"$zinc" bench -m "$work/m.gguf" --tier cpu -p 64,256 -n 4 -r 1 >"$work/out" 2>"$work/log" || miss "bench with roofs: $(tail -n 1 "$work/log")"
grep -q '^compute  [0-9]* Gop/s' "$work/out" || miss "no compute peak: $(cat "$work/out")"
[ "$(grep -c '^pp.* Gop/s .* % of compute$' "$work/out")" = 2 ] || miss "prompts without a share: $(grep '^pp' "$work/out")"
grep -q '^pp.* % of bandwidth' "$work/out" && miss "prompts have a percentage of the bandwidth: $(grep '^pp' "$work/out")"
grep -q '^tg.* % of bandwidth$' "$work/out" || miss "no percentage of the bandwidth: $(grep '^tg' "$work/out")"
grep -oE '[0-9.]+ % of compute' "$work/out" | awk '$1 > 100 { exit 1 }' || miss "more than all of the peak: $(grep '^pp' "$work/out")"
bench --json >"$work/j.json"
sed -n '/"test": "pp16"/,/}/p' "$work/j.json" | grep -q '"roof_percent"' && miss "--json: a prompt with a share of the memory roof"
sed -n '/"test": "tg4"/,/}/p' "$work/j.json" | grep -q '"roof_percent"' || miss "--json: no percentage of the bandwidth"
# answers at the same time: slots for the most of them, all values of each number, in order of magnitude
"$zinc" bench -m "$work/m.gguf" --tier cpu --streams 1,5 -p 20 -n 12 -r 2 --json >"$work/j.json" 2>"$work/log" ||
    miss "bench --streams: $(tail -n 1 "$work/log")"
grep -q '"slots": 5,' "$work/j.json" && grep -q '"context": 64,' "$work/j.json" || miss "--streams: $(head -n 12 "$work/j.json")"
grep -q '"few_rows": 0,' "$work/j.json" || miss "--streams: $(head -n 12 "$work/j.json")"
"$zinc" bench -m "$work/m.gguf" --tier lockstep --streams 1,9 -p 4 -n 2 -r 1 --batch-variant --json >"$work/v.json" 2>"$work/log" &&
    grep -q '"few_rows": 8,' "$work/v.json" || miss "--batch-variant: $(tail -n 1 "$work/log"), $(head -n 12 "$work/v.json")"
"$zinc" bench -m "$work/m.gguf" --tier cpu --batch-variant >"$work/out" 2>"$work/log"
[ $? -eq 2 ] && grep -q -- '--batch-variant: it needs --streams' "$work/log" || miss "--batch-variant without --streams: $(tail -n 1 "$work/log")"
[ "$(grep -oE '"streams": [0-9]+' "$work/j.json" | tr -dc '0-9\n' | paste -sd,)" = 1,5 ] || miss "--streams 1,5: $(cat "$work/j.json")"
[ "$(grep -cE '"(first_token_ms|between_tokens_ms)": \{' "$work/j.json")" = 4 ] || miss "--streams: no times: $(cat "$work/j.json")"
awk '/"p50"/ { a = $2 + 0 } /"p95"/ { b = $2 + 0 } /"p99"/ { c = $2 + 0; n++; if (!(a > 0 && a <= b && b <= c)) bad = 1 }
     /"tps"/ { whole = $2 + 0; if (!(whole > 0)) bad = 1 } END { exit bad || n != 4 }' "$work/j.json" ||
    miss "--streams: values that cannot be: $(cat "$work/j.json")"
"$zinc" bench -m "$work/m.gguf" --tier cpu --streams 3 -p 8 -n 6 -r 1 >"$work/out" 2>"$work/log" || miss "bench --streams: $(tail -n 1 "$work/log")"
grep -qE '^ +3( +([0-9.]+|-)){8}$' "$work/out" || miss "--streams: $(cat "$work/out")"
# where a step of several streams goes: a kernel's lines for each number of them, and nothing that has no meaning there
"$zinc" bench -m "$work/m.gguf" --tier cpu --streams 1,9 --profile -p 60 -n 2 >"$work/out" 2>"$work/log" || miss "--streams --profile: $(tail -n 1 "$work/log")"
[ "$(grep -cE '^[19] streams@d60: [1-9][0-9]* launches a step, ' "$work/out")" = 2 ] || miss "--streams --profile: $(cat "$work/out")"
"$zinc" bench -m "$work/m.gguf" --tier cpu --streams 2 --profile --every 5 >"$work/out" 2>"$work/log" && miss "--streams --profile --every was taken"
# 3 requests of which the last one comes after 0.8 s cannot have their 18 tokens sooner
"$zinc" bench -m "$work/m.gguf" --tier cpu --streams 3 --every 400 -p 8 -n 6 -r 1 >"$work/out" 2>"$work/log" || miss "bench --every: $(tail -n 1 "$work/log")"
awk '$1 == 3 { n++; if ($2 > 18 / 0.8) bad = 1 } END { exit bad || n != 1 }' "$work/out" || miss "--every: $(cat "$work/out")"
finish
