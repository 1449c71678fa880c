#!/usr/bin/env bash
# An installation has all that there is to have, works from where it lies, and goes away without a trace.
set -u
build=${ZINC_BUILD:-build}
for p in zinc mkmodel zinc.1; do
    [ -e "$build/$p" ] || { echo "no $build/$p: make first"; exit 77; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-install.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export -n ZINC_BUILD ZINC_SHARED 2>/dev/null
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}
tools/install.sh put "$build" "$work/usr" >"$work/out" 2>&1 || miss "install: $(cat "$work/out")"
for f in bin/zinc bin/mkmodel bin/quantize bin/loadgen share/man/man1/zinc.1 share/doc/zinc/README.md share/doc/zinc/doc/server.md \
    share/zinc/zinc-demo.gguf share/zinc/zinc.service share/zinc/grafana-dashboard.json share/bash-completion/completions/zinc share/zsh/site-functions/_zinc \
    share/fish/vendor_completions.d/zinc.fish; do
    [ -s "$work/usr/$f" ] || miss "not installed: $f"
done
# links of the documents lead to what was installed
(cd "$work/usr/share/doc/zinc" && for page in README.md CONTRIBUTING.md doc/*.md; do
    grep -oE '\]\(([^)#: ]+)' "$page" | sed 's/^](//' | while read -r to; do
        [ -e "$(dirname "$page")/$to" ] || echo "$page: $to"
    done
done) >"$work/broken"
grep -vE 'tests/|: https?$' "$work/broken" && miss "links of installed documents that lead nowhere"
(cd "$work" && PATH=$work/usr/bin:$PATH && zinc check >out 2>&1 && mkmodel --list >out2) || miss "programs: $(cat "$work/out")"
if [ -e "$build/libamdsim.so" ] && [ "$build" = build ]; then
    (cd "$work" && usr/bin/amdsim --gpu gfx1201 usr/bin/zinc ladder --to 1 --json >ladder.json 2>err) || miss "amdsim: $(cat "$work/err")"
fi
tools/install.sh remove "$build" "$work/usr" || miss "uninstall"
find "$work/usr" -type f | grep . && miss "left behind: see above"
[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
