#!/bin/sh
# install.sh [PREFIX]: copies this folder's bin, lib and share below PREFIX (/usr/local). bin/zinc runs from where it lies, too.
# install.sh --remove [PREFIX] takes away what it put there.
set -eu
cd "$(dirname "$0")"
what=put
if [ "${1:-}" = --remove ]; then
    what=remove
    shift
fi
case ${1:-/usr/local} in
-*) echo "usage: install.sh [--remove] [PREFIX]" >&2; exit 2 ;;
/*) prefix=${1:-/usr/local} ;;
*) prefix=$OLDPWD/$1 ;;
esac
find bin lib share -type f | while read -r file; do
    if [ $what = put ]; then
        mode=644
        [ ! -x "$file" ] || mode=755
        install -D -m $mode "$file" "$prefix/$file" || { echo "install.sh: cannot write $prefix/$file" >&2; exit 1; }
    else
        rm -f "$prefix/$file"
    fi
done
if [ $what = remove ]; then
    find share/zinc share/doc/zinc lib/zinc -depth -type d | while read -r dir; do rmdir "$prefix/$dir" 2>/dev/null || :; done
    echo "removed from $prefix"
else
    echo "installed below $prefix: try $prefix/bin/zinc check"
fi
