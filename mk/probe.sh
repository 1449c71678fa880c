#!/bin/sh
# mk/probe.sh: what the compilers and libraries here can do, printed as a makefile. Run once for a build folder.
# Environment: CC, CLANG, GLSLC, PTXAS; METALC and METALLINK, Apple's compiler and linker for Metal; PACKAGES, what is linked, by pkg-config's names; ARCHIVES, what is linked into the tarball's
# programs; PROBE_OF, all of these in one line, by
# which the Makefile sees that others are asked for.

yes_if() # COMMAND...
{
    "$@" >/dev/null 2>&1 && echo yes
}

gpu() # FLAGS...: does clang compile and link for it?
{
    echo 'void f(void) {}' | yes_if $CLANG "$@" -x c - -o /dev/null
}

vulkan()
{
    command -v $GLSLC >/dev/null && echo '#include <vulkan/vulkan.h>' | yes_if $CC -E -x c -
}

metallib()
{
    dir=$(mktemp -d "${TMPDIR:-/tmp}/probe.XXXXXX") || return
    echo 'kernel void f() {}' >"$dir/f.metal"
    { $METALC -c -o "$dir/f.air" "$dir/f.metal" && $METALLINK -o "$dir/f.metallib" "$dir/f.air"; } >/dev/null 2>&1 && echo yes
    rm -rf "$dir"
}

package() # NAMES VARIABLE: the flags of libraries that tests alone need, where they are
{
    pkg-config --exists "$1" || return
    echo "$2_CFLAGS := $(pkg-config --cflags "$1")"
    echo "$2_LIBS := $(pkg-config --libs "$1")"
}

lld() # the flags by which $CC links with LLVM's linker, clang's own or one on the path
{
    dir=$($CLANG -print-prog-name=ld.lld 2>/dev/null)
    case $dir in */*) flags="-B${dir%/*} -fuse-ld=lld" ;; *) flags="-fuse-ld=lld" ;; esac
    echo 'int main(void) { return 0; }' | $CC $flags -pthread -x c - -o /dev/null >/dev/null 2>&1 && echo "$flags"
}

archives() # the paths of those that are here, and the names of the others
{
    found= missing=
    for name in $ARCHIVES; do
        path=$($CC -print-file-name=lib$name.a)
        case $path in */*) found="$found $path" ;; *) missing="$missing lib$name.a" ;; esac
    done
    echo "ARCHIVES := $found"
    echo "ARCHIVES_MISSING := $missing"
}

cat <<END
# made by mk/probe.sh
PROBED     := $PROBE_OF
MACHINE    := $($CC -dumpmachine)
PKG_CFLAGS := $(pkg-config --cflags $PACKAGES)
PKG_LIBS   := $(pkg-config --libs $PACKAGES)
HAVE_NV    := $(gpu --target=nvptx64-nvidia-cuda -march=sm_90a -S)
HAVE_PTXAS := $(command -v "$PTXAS" >/dev/null && printf '.version 8.3\n.target sm_90a\n.address_size 64\n' | yes_if "$PTXAS" -arch=sm_90a -o /dev/null -)
HAVE_AMD   := $(gpu --target=amdgcn-amd-amdhsa -mcpu=gfx12-generic -nogpulib -fuse-ld=lld \
               -Xclang -mcode-object-version=6 -mllvm --amdhsa-code-object-version=6)
HAVE_CXX   := $(echo "struct s { int i; };" | yes_if $CLANG -x c++ -std=c++14 -c - -o /dev/null)
HAVE_VK    := $(vulkan)
HAVE_METALLIB := $(metallib)
LLD        := $(lld)
$(package check CHECK)
$(package libhsakmt HSAKMT)
$(package "libdrm_amdgpu libdrm" DRM)
$(package libedit EDIT)
$(package libcurl CURL)
$(archives)
END
