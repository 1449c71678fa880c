#!/usr/bin/env bash
# What was found when something was built is written down (`says` in the Makefile): a build that finds the same makes nothing anew,
# and one that finds a library more, or one less, makes what sees it. NO_NV=1 and NO_AMD=1 leave those cards' kernels out, and no
# others.
work=$(mktemp -d "${TMPDIR:-/tmp}/zt.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
miss() { echo "MISS: $*"; bad=1; }
clean_make() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make "$@" >"$work/out" 2>&1; }

# By itself, on a makefile of two rules.
sed -n '/^define says$/,/^endef$/p' Makefile >"$work/Makefile"
grep -q '^endef' "$work/Makefile" || miss "no 'define says' in the Makefile"
cat >>"$work/Makefile" <<'END'
.DEFAULT_GOAL := lib
$(eval $(call says,made/lib.found,$(strip $(WORDS))))
lib: made/lib.found
	@echo again
	@touch $@
END
made() # again | kept WORDS
{
    local was=kept
    clean_make -C "$work" -s WORDS="$2" || miss "'$2': $(tail -n 1 "$work/out")"
    ! grep -q again "$work/out" || was=again
    [ $was = "$1" ] || miss "'$2' behind '$(cat "$work/before")': $was"
    echo "$2" >"$work/before"
}
echo nothing >"$work/before"
made again "-lone"
made kept "-lone"
made again "-I/usr/include/two -lone -ltwo"
made kept "-I/usr/include/two -lone -ltwo"
made again "-lone" # a part of the words before
made again ""
made kept ""

# In the tree, with nothing compiled: every file is there by its name alone, and make tells what it would do.
b=$work/b k=$work/kernels
tree() { clean_make B="$b" K="$k" CC=gcc K_HOST_OBJ="$b/obj/kernels/none.o" "$@"; } # which all builds share, in build/
would() # what is made by make with these variables
{
    tree -n "$b/zinc" "$@" || miss "$*: $(tail -n 1 "$work/out")"
    sed -nE "s|^echo \"  ([A-Z]+) +($b/)?([^\"]+)\"|\1 \3|p" "$work/out" | sort -u | tr '\n' ' '
}
tree "$b/lib.found" "$b/lib.flags" "$k/blobs.found" || miss "$(tail -n 1 "$work/out")"
for ((n = 0; n < 9; n++)); do # a touch makes no folders
    ! tree -k -t "$b/zinc" || break
    mkdir -p $(sed -nE 's|.*touch: open: (.*)/[^/]*: No such file.*|\1|p' "$work/out" | sort -u)
done
same=$(would)
[ -z "$same" ] || miss "nothing changed, and made again: $same"
vk=$(grep -q 'vk yes' "$k/blobs.found" || echo yes) # the other way
for change in "EDIT_LIBS=-lother: CC cli/line_edit.c" "DRM_LIBS=-lother: CC rt/tier.c" "CURL_LIBS=-lother: CC pull/curl_lib.c" \
    "HAVE_VK=$vk: CC rt/tier.c"; do
    again=$(would "${change%%: *}")
    case "$again" in *"AR libzinc.a"*"${change#*: }"*"LINK zinc"*) ;; *) miss "${change%%: *}: made again: ${again:-nothing}" ;; esac
done

blobs() # what is embedded, with these variables
{
    tree --eval 'embedded:; @echo $(BLOBS)' embedded "$@" || miss "$*: $(tail -n 1 "$work/out")"
    tail -n 1 "$work/out" | tr ' ' '\n'
}
blobs | sort >"$work/all"
for left in NO_NV=sm_ NO_AMD=gfx; do
    grep -q "/[a-z_]*${left#*=}" "$work/all" || echo "skipped: 1 cases: ${left%=*}: no kernels for such cards in this build"
    grep -v "/[a-z_]*${left#*=}" "$work/all" | diff - <(blobs "${left%=*}=1" | sort) >"$work/diff" ||
        miss "${left%=*}=1: $(head -n 3 "$work/diff")"
done
hopper() { grep -E '/[a-z_]*sm_' | grep -v '/sm_80/'; }
hopper <"$work/all" | diff - <(blobs NV_TARGETS=sm_90a | sort | grep -E '/[a-z_]*sm_') >"$work/diff" ||
    miss "NV_TARGETS=sm_90a: $(head -n 3 "$work/diff")"
both=$(blobs NO_NV=1 NO_AMD=1 | grep -E 'sm_|gfx' | head -n 3)
[ -z "$both" ] || miss "NO_NV=1 NO_AMD=1: $both"
exit $bad
