#!/usr/bin/env bash
# Every file that a Mac would build (make's own list there) compiles for macOS on Apple silicon: clang's macOS target, the C
# headers that Apple publishes, as PyPI's ziglang carries them, and this machine's headers of the libraries.
. tests/real/lib.sh
need_real macos
clang=${CLANG:-clang-19}
command -v $clang >/dev/null || skip "no $clang"
apple=$(ls -d build/real/macos/lib/python3*/site-packages/ziglang/lib/libc/include/any-darwin-any 2>/dev/null | head -n 1)
[ -n "$apple" ] || { miss "ziglang has no folder any-darwin-any"; finish; }
mkdir "$work/headers"
for h in jansson.h utf8proc.h xxhash.h zstd.h zstd_errors.h histedit.h editline vulkan vk_video; do
    [ ! -e /usr/include/$h ] || ln -s /usr/include/$h "$work/headers/"
done
for h in jansson_config.h gnutls curl; do
    at=$(find /usr/include -maxdepth 2 -name $h | head -n 1)
    [ -z "$at" ] || ln -s "$at" "$work/headers/"
done
make -s --no-print-directory MACOS=Darwin list-sources | tr ' ' '\n' | grep '\.c$' >"$work/files"
[ "$(wc -l <"$work/files")" -gt 250 ] || miss "make lists $(wc -l <"$work/files") files for macOS"
grep -qE '^rt/(kfd|umq|amd)/' "$work/files" && miss "tiers for AMD cards are in the list for macOS"
flags=(--target=arm64-apple-macos15 -nostdlibinc -isystem "$apple" -isystem "$work/headers" -std=gnu17 -Wall -Wextra -Wno-unused-parameter
    -D_GNU_SOURCE -include base/macos/macos.h -Ibase/macos/include -I. -Ibuild/gen -DZINC_VERSION='"0"' -DZINC_CATALOGUE='"share/catalogue.json"'
    -DZINC_PAGE='"build/gen/page.html"' -DZINC_OPENAPI='"share/openapi.json"' -DZINC_VULKAN -fsyntax-only)
[ ! -d "$work/headers/curl" ] || flags+=(-DZINC_CURL)
xargs -P "$(nproc)" -n 40 $clang "${flags[@]}" <"$work/files" >"$work/out" 2>&1 || miss "$(grep -m 1 error: "$work/out")"
! grep -q warning: "$work/out" || miss "$(grep -m 1 warning: "$work/out")"
# and a mistake is seen
echo '#include <sys/inotify.h>' | $clang "${flags[@]}" -x c - >/dev/null 2>&1 && miss "a header of Linux alone was found"
echo "$(wc -l <"$work/files") files"
finish
