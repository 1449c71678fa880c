#!/usr/bin/env bash
# pack/check.sh DIST VERSION [SUITE...]: what was made, as those who get it do: the packages through lintian, then in bare roots of
# Debian, this machine's suite unless others are named: the tarball unpacked and run before anything else is there, the packages
# installed with what they depend on, used, and purged. Roots come by debootstrap from the mirror that apt uses here, and stay in
# DIST/root-SUITE. Needs root; closes with "N misses".
set -euo pipefail
dist=$(realpath "$1") version=$2
shift 2
arch=$(dpkg --print-architecture)
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}
shopt -s nullglob
debs=("$dist"/*_"$version"_"$arch".deb "$dist"/*_"$version"_all.deb)
tarball=$(echo "$dist"/zinc-"$version"-*.tar.xz)
[ ${#debs[@]} -gt 0 ] && [ -e "$tarball" ] || { echo "pack/check.sh: no packages of version $version in $dist: make dist" >&2; exit 1; }

if command -v lintian >/dev/null; then
    lintian --fail-on error,warning --tag-display-limit 0 "${debs[@]}" 2>"$dist/lintian.err" || miss "lintian: $(cat "$dist/lintian.err")"
    echo "lintian: ${debs[*]##*/}"
else
    echo "skipped: no lintian (apt-get install lintian)"
fi
(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || miss "SHA256SUMS"

[ "$(id -u)" = 0 ] || { echo "skipped: roots need root"; exit $((misses > 0)); }
command -v debootstrap >/dev/null || { echo "skipped: no debootstrap (apt-get install debootstrap)"; exit $((misses > 0)); }
[ $# -gt 0 ] || set -- "$(. /etc/os-release && echo "$VERSION_CODENAME")"
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 'Created-By: Packages' | sed -n 's| Debian$||p' | grep -v security | head -n 1)
[ -n "$mirror" ] || { echo "skipped: apt has no mirror of Debian here"; exit $((misses > 0)); }
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-check.XXXXXX")
trap 'rm -rf "$work"' EXIT

in_root() { unshare --mount --pid --fork --kill-child chroot "$root" /bin/sh -c 'mount -t proc proc /proc && exec "$@"' sh "$@"; }
bare() { in_root env -i "$@"; } # nothing of an environment, not even PATH
says() # WANTED COMMAND...: it succeeds and its output has WANTED
{
    local wanted=$1
    shift
    "$@" >"$work/out" 2>&1 || { miss "$suite: ${*:2}: exit $?: $(tail -n 3 "$work/out")"; return 0; }
    grep -q -e "$wanted" "$work/out" || miss "$suite: ${*:2}: no '$wanted' in: $(tail -n 3 "$work/out")"
}

for suite; do
    pristine=$dist/root-$suite
    if [ ! -e "$pristine/etc/debian_version" ]; then
        rm -rf "$pristine" "$pristine.part"
        echo "debootstrap $suite: a minute or two"
        debootstrap --variant=minbase "$suite" "$pristine.part" "$mirror" >"$dist/debootstrap.log" 2>&1 ||
            { miss "debootstrap $suite: $(tail -n 2 "$dist/debootstrap.log")"; continue; }
        mv "$pristine.part" "$pristine"
    fi
    root=$work/root
    rm -rf "$root"
    cp -a --reflink=auto "$pristine" "$root"
    cp /etc/resolv.conf "$root/etc/resolv.conf"

    # the tarball, with nothing installed for it
    mkdir "$root/opt/t"
    tar -C "$root/opt/t" --strip-components=1 -xf "$tarball"
    says '^verdict *ready' bare /opt/t/bin/zinc check
    says 75 bare /opt/t/bin/zinc run -m /opt/t/share/zinc/zinc-demo.gguf --tier cpu --chat "What is 27 + 48?" --no-think --temp 0
    says 'device opened *ok' bare /opt/t/bin/amdsim --gpu gfx1201 /opt/t/bin/zinc ladder --to 1
    (cd "$root/opt/t/bin" && ls) | while read -r tool; do
        bare "/opt/t/bin/$tool" --help >"$work/out" 2>&1 || echo "$tool: $(tail -n 1 "$work/out")"
    done >"$work/tools"
    [ ! -s "$work/tools" ] || miss "$suite: tarball: $(cat "$work/tools")"
    (cd "$root" && find usr ! -type d | sort) >"$work/before"
    says 'installed below /usr/local' in_root /opt/t/install.sh
    says '^zinc' in_root zinc --version
    says 'removed from' in_root /opt/t/install.sh --remove
    (cd "$root" && find usr ! -type d | sort) | diff "$work/before" - >"$work/out" || miss "$suite: install.sh --remove: $(head -n 5 "$work/out")"

    # the packages
    cp "${debs[@]}" "$root/tmp/"
    in_root apt-get update >"$work/apt" 2>&1 || miss "$suite: apt-get update: $(tail -n 2 "$work/apt")"
    in_root env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get install -y --no-install-recommends /tmp/*.deb' >"$work/apt" 2>&1 ||
        miss "$suite: apt-get install: $(tail -n 5 "$work/apt")"
    says '^verdict *ready' in_root zinc check
    says 75 in_root zinc run -m /usr/share/zinc/zinc-demo.gguf --tier cpu --chat "What is 27 + 48?" --no-think --temp 0
    says 'device opened *ok' in_root zinc-amdsim --gpu gfx1201 zinc ladder --to 1
    for tool in "$root"/usr/bin/zinc-*; do
        says . in_root "/usr/bin/${tool##*/}" --help
    done
    says '^sk-' in_root cat /etc/zinc/keys
    says '^600 root' in_root stat -c '%a %U' /etc/zinc/keys
    [ -z "$(find "$root/etc/systemd" -name 'zinc*')" ] || miss "$suite: the service is enabled by itself"
    says 'ii ' in_root sh -c 'dpkg --audit; dpkg -l zinc'
    in_root env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get install -y --reinstall --no-install-recommends /tmp/*.deb' >"$work/apt" 2>&1 ||
        miss "$suite: installed once more: $(tail -n 5 "$work/apt")"
    in_root env DEBIAN_FRONTEND=noninteractive sh -c 'dpkg --purge $(dpkg-query -W -f="\${Package} \${source:Package}\n" | sed -n "s/ zinc\$//p")' >"$work/apt" 2>&1 || miss "$suite: purge: $(tail -n 3 "$work/apt")"
    left=$(find "$root/etc" "$root/usr" "$root/var/lib" -name '*zinc*' ! -path "$root/var/lib/dpkg/*" ! -path "$root/usr/local/*")
    [ -z "$left" ] || miss "$suite: left behind by a purge: $left"
    echo "$suite: tarball and packages in a root of $(cat "$root/etc/debian_version"), by debootstrap"
    rm -rf "$root"
done
echo "$misses misses"
[ $misses -eq 0 ]
