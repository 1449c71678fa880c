#!/bin/sh
# pack/report.sh DIST VERSION: what was made, with sizes and sums, and into SHA256SUMS.
set -eu
cd "$1"
set -- *_"$2"_*.deb zinc-"$2"-*.tar.xz zinc-"$2".tgz
sha256sum "$@" >SHA256SUMS
for file in "$@"; do
    printf '%8.1f MiB  %s  %s\n' "$(stat -c '%s 1048576' "$file" | awk '{ print $1 / $2 }')" "$(sha256sum "$file" | cut -c 1-16)" "$file"
done
