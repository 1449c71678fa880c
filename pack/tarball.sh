#!/usr/bin/env bash
# pack/tarball.sh BUILD VERSION OUT: an archive of the programs that BUILD/static holds and of what goes with them, laid out as
# below a PREFIX, with install.sh and the licences of the libraries that are linked in; prints its path. The same files and
# SOURCE_DATE_EPOCH give the same bytes.
#
# DIST_LEVEL: of compression (6), or none. LINKED: the libraries' archives, by path.
set -euo pipefail
build=$1 version=$2 out=$3 level=${DIST_LEVEL:-6}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(pack/epoch.sh)} LC_ALL=C.UTF-8 TZ=UTC
name=zinc-$version-$(uname -s | tr A-Z a-z)-$(uname -m)
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-tarball.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022
dir=$work/$name
tools/install.sh put "$build/static" "$dir" >/dev/null
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$dir"/bin/* "$dir"/lib/zinc/*.so
install -m 755 pack/install.sh "$dir/install.sh"
cp LICENSE "$dir/"
# What is linked in keeps its authors' terms, and its source has a name.
if command -v dpkg-query >/dev/null; then
    licences=$dir/share/doc/zinc/licences
    mkdir -p "$licences"
    for archive in $LINKED; do
        archive=$(realpath "$archive")
        package=$({ dpkg-query -S "$archive" "${archive#/usr}" 2>/dev/null || :; } | head -n 1 | cut -d : -f 1)
        [ -n "$package" ] || { echo "pack/tarball.sh: no package of $archive, whose licence is to be named" >&2; exit 1; }
        dpkg-query -W -f='${binary:Package}\t${source:Package} ${source:Version}\n' "$package"
    done | sort -u >"$licences/PACKAGES"
    while IFS=$'\t' read -r package _; do
        cp -L "/usr/share/doc/${package%:*}/copyright" "$licences/${package%:*}"
    done <"$licences/PACKAGES"
    sed -i '1i Linked into the programs, from these Debian packages (binary, and source with its version):\n' "$licences/PACKAGES"
    chmod 644 "$licences"/*
fi
mkdir -p "$out"
tar -C "$work" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$work/tar" "$name"
if [ "$level" = none ]; then
    mv "$work/tar" "$out/$name.tar" && echo "$out/$name.tar"
else
    xz -T1 -"$level" -c "$work/tar" >"$out/$name.tar.xz" && echo "$out/$name.tar.xz" # threads would change the bytes
fi
