#!/usr/bin/env bash
# zinc bench --report: one file that is JSON with all its parts, and a message where it cannot be written.
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
finish
