#!/usr/bin/env bash
# tests/run: what it counts, that tests run side by side, the slow ones first, and that nothing of them stays behind. And of
# tests/e2e/serve.sh, that a test ends at once when its server does.
set -u
run=$PWD/tests/run root=$PWD
unset TESTS_ELSEWHERE TEST_TIMEOUT
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
    [ ! -e out ] || sed 's/^/    /' out
}
# script NAME: a test from stdin, in a tree of its own
script()
{
    mkdir -p "tests/${1%/*}" build/tests
    { echo '#!/bin/bash'; cat; } >"tests/$1.sh"
    chmod +x "tests/$1.sh"
}
fresh() { rm -rf tests build out; }
has() { grep -qE -e "$1" out || miss "$2: no line '$1'"; }
closes() { [ "$(tail -n 1 out)" = "$1" ] || miss "$2: closes with '$(tail -n 1 out)' instead of '$1'"; }
gone() # FILE WHAT: the process whose id is in FILE has ended
{
    local i
    for i in $(seq 100); do
        case $(cat "/proc/$(cat "$1")/stat" 2>/dev/null) in '' | *') Z '*) return ;; esac
        sleep 0.1
    done
    miss "$2: process $(cat "$1") is still there"
    kill -KILL "$(cat "$1")"
}

# What counts as what. An unbuilt program and a script without its run bit are failures, not silence.
script a/test_ok <<<'exit 0'
script a/test_bad <<<'for i in $(seq 200); do echo "line $i of bad"; done; exit 3'
script a/test_skip <<<'echo "no such device"; exit 77'
script a/test_part <<<'echo "skipped: 3 cases: no vocabularies"; echo "skipped: 1 case: no device"; exit 0'
script a/test_elsewhere <<<'exit 1'
script a/test_bits <<<'exit 0'
chmod -x tests/a/test_bits.sh
touch tests/a/test_unbuilt.c
TESTS_ELSEWHERE=test_elsewhere.sh JOBS=3 "$run" build a >out 2>&1 && miss "failures, and exit 0"
closes "2 passed, 3 failed, 6 skipped" "counts"
has '^  FAIL  a/test_bits.sh .*chmod \+x tests/a/test_bits.sh' "no run bit"
has '^  FAIL  a/test_unbuilt .*not built' "not built"
has '^  skip  a/test_part.sh .*3 of its cases: no vocabularies' "skipped in part"
has '^  skip  a/test_skip.sh .*no such device' "skipped"
[ "$(sed -n '/FAIL  a\/test_bad/,/line 200/p' out | grep -c 'line [0-9]* of bad')" = 65 ] || miss "not beginning and end of a long output"
[ "$(wc -l <build/tests/failed/a.test_bad.sh.log)" = 200 ] || miss "a long output is not kept whole"
# What failed, and why, comes last.
[ "$(tail -n 10 out | sed -n '/^failed: a\/test_bad.sh: exit 3$/,$p' | grep -c '^    |  line \(19[6-9]\|200\) of bad')" = 5 ] ||
    miss "the end does not say why test_bad failed"
has '^failed: a/test_unbuilt: not built' "the end tells of what is not built"
has '^failed: a/test_bits.sh: no run bit' "the end tells of what cannot run"
script c/test_misses <<<'echo "MISS: one is wrong"; echo "MISS: two are"; for i in $(seq 100); do echo more; done; exit 1'
JOBS=1 "$run" build c >out 2>&1
[ "$(tail -n 4 out | head -n 3 | tr '\n' '/')" = "failed: c/test_misses.sh: exit 1/    |  MISS: one is wrong/    |  MISS: two are/" ] ||
    miss "the misses do not come last"
JOBS=1 "$run" build b >out 2>&1 && miss "no such suite, and exit 0"
closes "0 passed, 1 failed, 0 skipped" "no such suite"
JOBS=1 "$run" build a/test_ok >out 2>&1 || miss "one test by its name: exit $?"
closes "1 passed, 0 failed, 0 skipped" "one test by its name"

# Side by side: each waits until the other is there. And one that needs all cores runs when nothing else does.
fresh
for i in 1 2; do
    script "a/test_$i" <<<"touch $work/here$i; for k in \$(seq 200); do [ -e $work/here$((3 - i)) ] && exit 0; sleep 0.1; done; exit 1"
    script "a/test_all_$i" <<<"# needs: all cores
        mkdir $work/alone || exit 1; sleep 0.2; rmdir $work/alone; [ -e $work/here1 ] && [ -e $work/here2 ]"
done
JOBS=2 "$run" build a >out 2>&1
closes "4 passed, 0 failed, 0 skipped" "side by side"

# The order: by tests/slow, then by what was measured.
fresh
for i in 1 2 3; do script "a/test_$i" <<<"echo $i >>$work/order"; done
printf '# seconds\n5 a/test_2.sh\n9 a/test_3.sh\n' >tests/slow
JOBS=1 "$run" build a >out 2>&1
[ "$(tr -d '\n' <order)" = 321 ] || miss "order by tests/slow: $(tr -d '\n' <order)"
rm order
printf '7 a/test_1.sh\n3 a/test_3.sh\n1 a/test_2.sh\n' >build/tests/times
JOBS=1 "$run" build a >out 2>&1
[ "$(tr -d '\n' <order)" = 132 ] || miss "order by times: $(tr -d '\n' <order)"
[ "$(wc -l <build/tests/times)" = 3 ] || miss "times: $(cat build/tests/times)"
has '^a +3 tests' "time of a suite"
has 'of processor  a/test_1.sh' "the slowest"

# Nothing outlives its test: neither when it passes, nor at its time limit, nor when the run is interrupted. Each test
# has a folder of its own, which goes too.
fresh
script a/test_leaves <<<"sleep 300 & echo \$! >$work/left; echo \$TMPDIR >$work/dir; touch \$TMPDIR/file; exit 0"
script a/test_hangs <<<"trap '' TERM; sleep 300 & echo \$! >$work/hung; sleep 300; sleep 300"
TEST_TIMEOUT=1 JOBS=2 "$run" build a >out 2>&1
closes "1 passed, 1 failed, 0 skipped" "a test that hangs"
gone left "left behind by a test that passed"
gone hung "left behind by a test that was stopped"
[ ! -e "$(cat dir)" ] || miss "the folder of a test is still there"
fresh
rm -f hung
script a/test_hangs <<<"sleep 300 & echo \$! >$work/child; mv $work/child $work/hung; sleep 300"
JOBS=1 "$run" build a >out 2>&1 &
runner=$!
for i in $(seq 300); do [ -e hung ] && break; sleep 0.1; done
kill -TERM $runner
wait $runner
[ $? = 130 ] || miss "interrupted: exit $?"
gone hung "left behind when interrupted"

# A server that dies: the first wait that is in vain tells how, and ends the test. Clients that hang do not keep it up.
fresh
mkdir fake
cat >fake/zinc <<'END'
#!/bin/bash
[ "$2" != --help ] || exit 0
echo "a last word" >&2
echo http://127.0.0.1:1 >"$5" # serve --port 0 --ready-file FILE
sleep 0.3
kill -SEGV $$
END
cp fake/zinc fake/mkmodel
chmod +x fake/*
script a/test_server <<END
cd "$root" || exit 1
. tests/e2e/lib.sh
. tests/e2e/serve.sh
sleep 290 &
serve dies || finish
await test -e "\$work/never" || miss "it never comes"
miss "and here"
finish
END
begin=$SECONDS
TEST_TIMEOUT=60 "$run" "$work/fake" a >out 2>&1
closes "0 passed, 1 failed, 0 skipped" "a server that dies"
has 'MISS: dies: the server has ended by itself: signal SEGV: a last word' "how it died"
! grep -qE 'it never comes|and here|stopped after' out || miss "the test went on without its server"
[ $((SECONDS - begin)) -lt 30 ] || miss "it took $((SECONDS - begin)) s to see that the server is gone"

[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
