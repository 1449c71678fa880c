#!/usr/bin/env bash
# pack/deb.sh BUILD VERSION OUT: the Debian packages of what `make install` would put below /usr, one for each group of files,
# into the folder OUT; prints their paths. The same files and SOURCE_DATE_EPOCH give the same bytes.
#
# DIST_LEVEL: of compression (6), or none. DEB_MAINTAINER: NAME <ADDRESS>. PREFIX/lib holds libraries, which go to the folder of the machine.
set -euo pipefail
build=$1 version=$2 out=$3
level=${DIST_LEVEL:-6}
here=$PWD
case $level in none) compress=-Znone ;; *) compress="-Zxz -z$level --threads-max=1" ;; esac # threads would change the bytes
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture; do
    command -v $tool >/dev/null || { echo "pack/deb.sh: no $tool (apt-get install dpkg-dev)" >&2; exit 1; }
done
[ "$(sed -nE '1s/^zinc \((.*)\) .*/\1/p' pack/deb/changelog)" = "$version" ] ||
    { echo "pack/deb.sh: pack/deb/changelog begins with $(head -n 1 pack/deb/changelog), expected version $version: write its entry" >&2; exit 1; }
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(pack/epoch.sh)} LC_ALL=C.UTF-8 TZ=UTC
arch=$(dpkg-architecture -qDEB_HOST_ARCH) multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
maintainer=${DEB_MAINTAINER:-$(sed -nE 's/^ -- (.*>)  .*/\1/p;T;q' pack/deb/changelog)}
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022
tools/install.sh put "$build" "$work/stage/usr" >/dev/null

# What a file of the stage is for: "PACKAGE PATH", or "-" when it stays in the source tree. Programs that embed the kernels a
# second time for a developer's measurements stay there; tools with common names get zinc- before them.
place()
{
    case $1 in
    usr/bin/zinc | usr/share/man/man1/zinc.1 | usr/share/bash-completion/* | usr/share/fish/*) echo "zinc $1" ;;
    usr/share/zsh/site-functions/_zinc) echo "zinc usr/share/zsh/vendor-completions/_zinc" ;;
    usr/share/doc/zinc/LICENSE) echo - ;; # is in copyright
    usr/share/zinc/zinc.service) echo "zinc usr/lib/systemd/system/zinc.service" ;;
    usr/share/doc/zinc/examples/*) echo "libzinc-dev usr/share/doc/libzinc-dev/examples/${1##*/}" ;;
    usr/share/zinc/python/zinc.py) echo "python3-zinc usr/lib/python3/dist-packages/zinc.py" ;;
    usr/share/doc/zinc/* | usr/share/zinc/*) echo "zinc $1" ;;
    usr/bin/quantize | usr/bin/mkmodel | usr/bin/loadgen | usr/bin/streamdump | usr/bin/pm4dump | usr/bin/amdsim)
        echo "zinc-tools usr/bin/zinc-${1##*/}" ;;
    usr/lib/zinc/libamdsim.so) echo "zinc-tools $1" ;;
    usr/bin/streamdiff | usr/bin/vkstats | usr/bin/grammarbench | usr/bin/mmbench) echo - ;;
    usr/lib/libzinc.so.*) echo "libzinc0 usr/lib/$multiarch/${1#usr/lib/}" ;;
    usr/include/*) echo "libzinc-dev $1" ;;
    usr/lib/libzinc.so | usr/lib/pkgconfig/*) echo "libzinc-dev usr/lib/$multiarch/${1#usr/lib/}" ;;
    *) return 1 ;;
    esac
}

describe() # PACKAGE: its fields beside those that all have
{
    case $1 in
    zinc)
        cat <<END_OF_FIELDS
Architecture: $arch
Section: science
Recommends: ca-certificates, libcurl4 | libcurl3-gnutls, libvulkan1
Suggests: libdrm-amdgpu1, libcuda1, mesa-vulkan-drivers, zinc-tools
Description: run language models from GGUF files, on CPUs and GPUs
 zinc reads a language model from a GGUF file and answers in the terminal, on
 a chat page, and through the APIs of OpenAI, Anthropic and Ollama. It drives
 NVIDIA cards by their driver alone, AMD cards by the stock kernel driver, and
 any other by Vulkan; without a card it computes on the processor.
 .
 A very small model to try it with and a systemd unit for zinc serve, which is
 not enabled by itself, are part of the package.
END_OF_FIELDS
        ;;
    zinc-tools)
        cat <<END_OF_FIELDS
Architecture: $arch
Section: science
Recommends: zinc
Description: tools beside zinc: quantiser, model maker, load generator
 Smaller weights for a GGUF file (zinc-quantize), models with random weights
 in the shape of a family (zinc-mkmodel), load for a server (zinc-loadgen),
 command streams and AMD packets in words, and a simulator of AMD cards.
END_OF_FIELDS
        ;;
    libzinc0)
        cat <<END_OF_FIELDS
Architecture: $arch
Section: libs
Multi-Arch: same
Recommends: libvulkan1
Suggests: libdrm-amdgpu1, libcuda1
Description: run language models from GGUF files - shared library
 What zinc does for programs: open a model, tokenise, evaluate, sample,
 embed, stream.
END_OF_FIELDS
        ;;
    libzinc-dev)
        cat <<END_OF_FIELDS
Architecture: $arch
Section: libdevel
Multi-Arch: same
Depends: libzinc0 (= $version)
Description: run language models from GGUF files - header and pkg-config
 What a program needs to be built with libzinc.
END_OF_FIELDS
        ;;
    python3-zinc)
        cat <<END_OF_FIELDS
Architecture: all
Section: python
Depends: python3:any, libzinc0 (>= $version)
Description: run language models from GGUF files - Python module
 The functions of libzinc for Python programs, by ctypes.
END_OF_FIELDS
        ;;
    *) echo "pack/deb.sh: no fields for a package $1: write them in describe" >&2; return 1 ;;
    esac
}

while read -r file; do
    to=$(place "$file") || { echo "pack/deb.sh: no package for $file: name one in place" >&2; exit 1; }
    [ "$to" != - ] || continue
    dir=$work/${to%% *} to=${to#* }
    mkdir -p "$dir/${to%/*}"
    cp -a "$work/stage/$file" "$dir/$to"
done < <(cd "$work/stage" && find . ! -type d -printf '%P\n' | sort)

[ ! -d "$work/zinc" ] || (
    cd "$work/zinc"
    sed -i '/^#$/,/^\[Unit\]/{/^\[Unit\]/!d}; 1,/^\[Unit\]/{/^#/d}; s|/usr/local/bin|/usr/bin|' usr/lib/systemd/system/zinc.service
    install -Dm644 "$here/pack/deb/serve.conf" etc/zinc/serve.conf
    ln -s copyright usr/share/doc/zinc/LICENSE
)
if [ -d "$work/zinc-tools" ]; then
    man=$work/zinc-tools/usr/share/man/man1
    install -Dm644 pack/deb/zinc-tools.1 "$man/zinc-amdsim.1" # one page for all of them
    for tool in "$work"/zinc-tools/usr/bin/*; do
        [ "${tool##*/}" = zinc-amdsim ] || ln -s zinc-amdsim.1.gz "$man/${tool##*/}.1.gz"
    done
fi
if [ -d "$work/libzinc0" ]; then
    mkdir "$work/libzinc0/DEBIAN"
    soname=$(basename "$(find "$work/libzinc0" -type l)")
    echo "libzinc ${soname#libzinc.so.} libzinc0 (>= $version)" >"$work/libzinc0/DEBIAN/shlibs"
    echo "activate-noawait ldconfig" >"$work/libzinc0/DEBIAN/triggers"
fi
if [ -d "$work/libzinc-dev" ]; then # one folder further down than where it was installed
    sed -i "s|^prefix=.*|prefix=\${pcfiledir}/../../..|; s|^libdir=.*|libdir=\${prefix}/lib/$multiarch|" "$work"/libzinc-dev/usr/lib/*/pkgconfig/*.pc
fi

mkdir -p "$out"
mkdir "$work/debian" && touch "$work/debian/control"
for dir in "$work"/*/usr; do
    package=$(basename "${dir%/usr}")
    [ "$package" != stage ] || continue
    dir=$work/$package doc=$work/$package/usr/share/doc/$package
    mkdir -p "$doc" "$dir/DEBIAN"
    install -m 644 pack/deb/copyright "$doc/copyright"
    gzip -9nc pack/deb/changelog >"$doc/changelog.gz"
    find "$dir/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || :
    mapfile -t elf < <(find "$dir" -type f -exec sh -c 'head -c 4 "$1" | grep -q "^.ELF"' _ {} \; -print | sort)
    [ ${#elf[@]} -eq 0 ] || strip --strip-unneeded --remove-section=.comment --remove-section=.note "${elf[@]}"
    if [ -f "pack/deb/$package.lintian-overrides" ]; then
        install -Dm644 "pack/deb/$package.lintian-overrides" "$dir/usr/share/lintian/overrides/$package"
    fi
    depends=
    [ ${#elf[@]} -eq 0 ] || depends=$(cd "$work" && dpkg-shlibdeps -O -l"$work/libzinc0/usr/lib/$multiarch" "${elf[@]}" | sed -n 's/^shlibs:Depends=//p')
    {
        echo "Package: $package"
        echo "Source: zinc"
        echo "Version: $version"
        echo "Maintainer: $maintainer"
        echo "Priority: optional"
        # as dpkg-gencontrol counts: files in KiB, rounded up, folders and links as 1
        echo "Installed-Size: $(find "$dir" -path "$dir/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '0\n' |
            awk '{ n += $1 ? int(($1 + 1023) / 1024) : 1 } END { print n }')"
        [ -z "$depends" ] || echo "Depends: $depends"
        describe "$package"
    } >"$dir/DEBIAN/control"
    for script in postinst prerm postrm; do
        [ ! -f "pack/deb/$package.$script" ] || install -m 755 "pack/deb/$package.$script" "$dir/DEBIAN/$script"
    done
    [ ! -d "$dir/etc" ] || (cd "$dir" && find etc -type f | sort | sed 's|^|/|' >DEBIAN/conffiles)
    (cd "$dir" && find usr -type f | sort | xargs -d '\n' md5sum >DEBIAN/md5sums)
    find "$dir" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    file=$out/${package}_${version}_$(sed -n 's/^Architecture: //p' "$dir/DEBIAN/control").deb
    dpkg-deb --root-owner-group $compress --build "$dir" "$file" >/dev/null
    echo "$file"
done
