#!/usr/bin/env bash
# tests/fuzz/run: without FUZZ_SECONDS the same runs each time, from the corpus in one order; what is found is told.
set -u
run=$PWD/tests/fuzz/run
unset FUZZ_SECONDS FUZZ_RUNS FUZZ_SEED FUZZ_JOBS
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
    sed 's/^/    /' out
}
mkdir -p tests/fuzz/corpus/fuzz_good build/tests/fuzz
touch tests/fuzz/fuzz_good.c tests/fuzz/fuzz_bad.c
for i in b C a; do echo $i >tests/fuzz/corpus/fuzz_good/$i; done
cat >build/tests/fuzz/fuzz_good <<'END'
#!/bin/bash
printf '%s\n' "$@" >>args
for i; do case $i in -seed_inputs=@*) cat "${i#*@}" >seeds ;; esac; done
echo 'stat::number_of_executed_units: 77'
END
cat >build/tests/fuzz/fuzz_bad <<'END'
#!/bin/bash
for i; do case $i in -artifact_prefix=*) f=${i#*=}crash-1; printf found >"$f"; echo "Test unit written to $f" ;; esac; done
exit 77
END
chmod +x build/tests/fuzz/*
"$run" build >out 2>&1 && miss "a target fails, and exit 0"
[ "$(tail -n 1 out)" = "1 passed, 1 failed, 0 skipped" ] || miss "the last line"
grep -q 'ok .*fuzz_good .* 77 runs from 3 inputs' out || miss "what passed"
grep -q "input: build/fuzz/fuzz_bad-crash-1, 5 bytes, base64: $(printf found | base64)" out || miss "what was found is not told"
grep -qx -e '-runs=20000' args && grep -qx -e '-seed=1' args || miss "fixed runs: $(tr '\n' ' ' <args)"
grep -q -e '-max_total_time' args && miss "a time limit where runs are counted"
[ "$(cat seeds)" = tests/fuzz/corpus/fuzz_good/C,tests/fuzz/corpus/fuzz_good/a,tests/fuzz/corpus/fuzz_good/b ] ||
    miss "the corpus: $(cat seeds)"
[ "$(wc -l <seeds)" -eq 0 ] || miss "a newline behind the corpus' last name, which is then no file"
[ -z "$(find build/fuzz -mindepth 1 -type d)" ] || miss "fixed runs leave a folder, which the next would begin with"
rm args
echo '/* slow, so fixed runs: 40. */' >tests/fuzz/fuzz_good.c
"$run" build fuzz_good >out 2>&1
grep -qx -e '-runs=40' args || miss "runs that the target asks for: $(tr '\n' ' ' <args)"
FUZZ_RUNS=9 "$run" build fuzz_good >out 2>&1
grep -qx -e '-runs=9' args || miss "runs that the caller asks for: $(tr '\n' ' ' <args)"
rm args
FUZZ_SECONDS=3 FUZZ_SEED=9 "$run" build fuzz_good >out 2>&1 || miss "one target, exploring: exit $?"
grep -qx -e '-max_total_time=3' args && grep -qx -e '-seed=9' args || miss "exploring: $(tr '\n' ' ' <args)"
[ -d build/fuzz/fuzz_good ] || miss "exploring keeps nothing"
[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
