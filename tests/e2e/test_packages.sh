#!/usr/bin/env bash
# Packages: what is in them, what they ask for, and that a second making gives the same bytes; the tarball's programs run from
# another folder without an environment and need the C library alone; completions and the manual page, from the options' tables,
# know what --help knows. Installing into a bare Debian is `make dist-check`: debootstrap takes too long for here.
. tests/e2e/lib.sh
version=$("$zinc" --version | sed -nE '1s/^zinc ([^ ]*).*/\1/p')

# ---- completion, manual page and --help ----
"$zinc" help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p' | grep -vx zinc >"$work/commands"
[ "$(wc -l <"$work/commands")" -gt 15 ] || miss "zinc help lists $(wc -l <"$work/commands") commands"
for shell in bash zsh fish; do "$zinc" completion $shell >"$work/$shell"; done
sed 's/\\-/-/g; s/\\f[BIR]//g' "$build/zinc.1" >"$work/man"
n=0
while read -r command; do
    "$zinc" help "$command" 2>&1 | grep -oE '^ +(-[a-zA-Z0-9], )?--(\[no-\])?[a-z0-9-]+' | sed -E 's/.*--(\[no-\])?//' | grep -vx help | sort -u >"$work/helped"
    [ "$command" = completion ] || [ -s "$work/helped" ] || miss "zinc help $command has no options"
    n=$((n + $(wc -l <"$work/helped")))
    # bash: the one line of a command's words; --no-X stands beside --X
    sed -nE "s/^    $command\) words='(.*)' ;;/\1/p" "$work/bash" | head -n 1 | tr ' ' '\n' | sed 's/^--//' | grep -vx help | sort -u >"$work/b"
    sed -n "/^    $command)\$/,/;;\$/p" "$work/zsh" | sed -nE "s/^ *'\*?--([a-z0-9-]+)\[.*/\1/p" | grep -vx help | sort -u >"$work/z"
    sed -nE "s/^complete -c zinc -n '__fish_seen_subcommand_from $command' -l ([a-z0-9-]+).*/\1/p" "$work/fish" | sort -u >"$work/f"
    for shell in b z f; do
        comm -13 "$work/helped" "$work/$shell" | while read -r more; do # what else there is: the no- of what has one
            grep -qxF "${more#no-}" "$work/helped" && [ "$more" != "${more#no-}" ] || echo "$more"
        done >"$work/more"
        comm -23 "$work/helped" "$work/$shell" >"$work/less"
        [ ! -s "$work/more" ] && [ ! -s "$work/less" ] ||
            miss "completion ($shell) of $command: not there: $(tr '\n' ' ' <"$work/less"); not in --help: $(tr '\n' ' ' <"$work/more")"
    done
    grep -q "^\.SS zinc $command\$" "$work/man" || miss "the manual page has no zinc $command"
    while read -r option; do
        grep -qE -- "--(\[no-\])?$option( |\$)" "$work/man" || miss "the manual page does not know --$option of $command"
    done <"$work/helped"
done <"$work/commands"
[ $n -gt 200 ] || miss "only $n options were compared"
if command -v man >/dev/null; then
    MANROFFSEQ='' MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$build/zinc.1" 2>&1 >/dev/null | head -n 3 >"$work/roff"
    [ ! -s "$work/roff" ] || miss "the manual page: $(cat "$work/roff")"
fi

# ---- .deb ----
[ "$build" = build ] || finish # packages are of the release build
export DIST_LEVEL=none
field() { dpkg-deb -f "$1" "$2"; }
if command -v dpkg-shlibdeps >/dev/null; then
    pack/deb.sh "$build" "$version" "$work/one" >"$work/made" 2>"$work/err" || miss "pack/deb.sh: $(tail -n 3 "$work/err")"
    (TZ=Asia/Tokyo LC_ALL=C umask 077 && TZ=Asia/Tokyo LC_ALL=C pack/deb.sh "$build" "$version" "$work/two") >/dev/null 2>"$work/err" ||
        miss "once more: $(tail -n 3 "$work/err")"
    for deb in "$work"/one/*.deb; do
        cmp -s "$deb" "$work/two/${deb##*/}" || miss "${deb##*/}: other bytes the second time"
        [ "$(field "$deb" Version)" = "$version" ] || miss "${deb##*/}: version $(field "$deb" Version)"
        dpkg-deb -c "$deb" | awk '$2 != "root/root"' | grep . && miss "${deb##*/}: files that are not root's"
        dpkg-deb -c "$deb" | awk '$1 ~ /^-.......w/ || $1 ~ /^-..s/' | grep . && miss "${deb##*/}: modes"
    done
    deb=$(ls "$work"/one/zinc_*.deb)
    dpkg-deb -x "$deb" "$work/deb" && dpkg-deb -e "$deb" "$work/control"
    (cd "$work/deb" && md5sum --quiet -c "$work/control/md5sums" 2>&1 | head -n 3 | grep .) && miss "md5sums"
    for lib in libc6 libgnutls30 libzstd1 libjansson4; do
        field "$deb" Depends | grep -q "$lib" || miss "Depends has no $lib: $(field "$deb" Depends)"
    done
    for lib in libcurl libvulkan libdrm libcuda; do # are opened when they are needed
        ! field "$deb" Depends | grep -q $lib || miss "Depends has $lib"
    done
    field "$deb" Recommends | grep -q 'libcurl4 .*libvulkan1' || miss "Recommends: $(field "$deb" Recommends)"
    field "$deb" Suggests | grep -q libdrm-amdgpu1 || miss "Suggests: $(field "$deb" Suggests)"
    for f in usr/bin/zinc usr/share/man/man1/zinc.1.gz usr/share/zsh/vendor-completions/_zinc usr/lib/systemd/system/zinc.service \
        usr/share/doc/zinc/copyright usr/share/doc/zinc/changelog.gz usr/share/doc/zinc/doc/server.md etc/zinc/serve.conf; do
        [ -s "$work/deb/$f" ] || miss "the package has no $f"
    done
    zcat "$work/deb/usr/share/man/man1/zinc.1.gz" | cmp -s - "$build/zinc.1" || miss "another manual page"
    cmp -s "$work/bash" "$work/deb/usr/share/bash-completion/completions/zinc" || miss "another completion for bash"
    cmp -s "$work/zsh" "$work/deb/usr/share/zsh/vendor-completions/_zinc" || miss "another completion for zsh"
    cmp -s "$work/fish" "$work/deb/usr/share/fish/vendor_completions.d/zinc.fish" || miss "another completion for fish"
    grep -q '^ExecStart=/usr/bin/zinc serve ' "$work/deb/usr/lib/systemd/system/zinc.service" || miss "the unit starts another program"
    grep -q '/usr/local' "$work/deb/usr/lib/systemd/system/zinc.service" && miss "the unit speaks of /usr/local"
    if command -v systemd-analyze >/dev/null; then
        sed "s|/usr/bin/zinc|$PWD/$zinc|" "$work/deb/usr/lib/systemd/system/zinc.service" >"$work/zinc.service"
        systemd-analyze verify --man=no "$work/zinc.service" >"$work/out" 2>&1 && [ ! -s "$work/out" ] || miss "the unit: $(head -n 3 "$work/out")"
    fi
    for script in "$work"/control/p*; do sh -n "$script" || miss "${script##*/}"; done
    grep -lE 'systemctl.* enable|deb-systemd-helper enable' "$work"/control/p* && miss "the service is enabled by itself"
    if command -v lintian >/dev/null; then
        lintian --fail-on error,warning --tag-display-limit 0 --suppress-tags uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball "$work"/one/*.deb >"$work/lint" 2>"$work/err" || miss "lintian: $(head -n 5 "$work/lint" "$work/err")"
    else
        echo "skipped: 1 case: no lintian (apt-get install lintian)"
    fi
    sed -i "1s/(.*)/(9.9)/" "$work/control/control" # a version without an entry in the changelog is refused
    pack/deb.sh "$build" 9.9 "$work/three" >/dev/null 2>"$work/err" && miss "a version that the changelog does not know"
    grep -q 'expected version 9.9: write its entry' "$work/err" || miss "a version that the changelog does not know: $(cat "$work/err")"
else
    echo "skipped: 1 case: no dpkg-shlibdeps (apt-get install dpkg-dev)"
fi

# ---- chart and manifests ----
pack/chart.sh "$version" "$work/one" >/dev/null 2>"$work/err" || miss "pack/chart.sh: $(cat "$work/err")"
pack/chart.sh 9.9 "$work/three" >/dev/null 2>"$work/err" && miss "a chart of another version"
grep -rhoE 'image: zinc:.*' share/kubernetes | sort -u | grep -qx "image: zinc:$version" || miss "share/kubernetes has other images than zinc:$version"

# ---- tarball ----
[ -x "$build/static/zinc" ] || { echo "skipped: 1 case: no $build/static/zinc (make static says why)"; finish; }
LINKED=$(make -s list-linked) pack/tarball.sh "$build" "$version" "$work/one" >"$work/made" 2>"$work/err" || miss "pack/tarball.sh: $(tail -n 3 "$work/err")"
(umask 077 && LINKED=$(make -s list-linked) TZ=Asia/Tokyo pack/tarball.sh "$build" "$version" "$work/two") >/dev/null 2>&1
tarball=$(cat "$work/made")
cmp -s "$tarball" "$work/two/${tarball##*/}" || miss "${tarball##*/}: other bytes the second time"
mkdir "$work/else where" && tar -C "$work/else where" -xf "$tarball"
dir=$(echo "$work/else where"/zinc-*)
for program in "$dir"/bin/*; do
    needs=$(readelf -d "$program" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | grep -vE '^lib(c|m|dl|pthread)\.so|^ld-linux')
    [ -z "$needs" ] || miss "${program##*/} of the tarball needs $needs"
done
bare() { (cd / && env -i "$@" 2>"$work/err"); }
bare "$dir/bin/zinc" check | grep -q '^verdict *ready' || miss "tarball: zinc check: $(tail -n 2 "$work/err")"
bare "$dir/bin/zinc" run -m "$dir/share/zinc/zinc-demo.gguf" --tier cpu --chat "What is 27 + 48?" --no-think --temp 0 | grep -q 75 ||
    miss "tarball: zinc run: $(tail -n 2 "$work/err")"
bare "$dir/bin/mkmodel" tiny-qwen3 "$work/tiny.gguf" >/dev/null && bare "$dir/bin/quantize" "$work/tiny.gguf" "$work/tiny-q.gguf" Q8_0 >/dev/null ||
    miss "tarball: mkmodel, quantize: $(tail -n 2 "$work/err")"
grep -q '^libgnutls28-dev' "$dir/share/doc/zinc/licences/PACKAGES" && [ -s "$dir/share/doc/zinc/licences/libgnutls28-dev" ] ||
    miss "tarball: licences of what is linked in"
if command -v openssl >/dev/null && command -v curl >/dev/null; then # GnuTLS is within: HTTPS
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
        -addext 'subjectAltName=IP:127.0.0.1' -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
    (cd / && exec env -i "$dir/bin/zinc" serve -m "$dir/share/zinc/zinc-demo.gguf" --tier cpu --port 0 --ctx 512 --ready-file "$work/ready" --quiet \
        --tls-cert "$work/cert.pem" --tls-key "$work/key.pem" 2>"$work/err") &
    server=$!
    await eval '[ -s "$work/ready" ] || ended $server'
    curl -fsS --cacert "$work/cert.pem" "$(cat "$work/ready")/health" | grep -q '"status":"ok"' || miss "tarball: HTTPS: $(tail -n 2 "$work/err")"
    kill "$server"
    wait "$server" || miss "tarball: zinc serve: exit $?"
fi
"$dir/install.sh" "$work/prefix" >/dev/null || miss "install.sh"
bare "$work/prefix/bin/zinc" --version >"$work/out" || miss "installed: $(cat "$work/err")"
"$dir/install.sh" --remove "$work/prefix" >/dev/null || miss "install.sh --remove"
find "$work/prefix" -type f | grep . && miss "install.sh --remove left files"
finish
