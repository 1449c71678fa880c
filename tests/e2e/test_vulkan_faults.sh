#!/usr/bin/env bash
# The vulkan tier where drivers fail: one clear line and a non-zero exit each time, nothing lost; and the pipeline cache,
# whole, broken, foreign, or nowhere to be put.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc") # runs in another folder, where reports go
need_vulkan
export ZINC_TIER=vulkan
faulty=$build/tests/e2e/libfaulty_vulkan.so
[ -e "$faulty" ] || skip "no $faulty: make tests first"
m=$work/m.gguf
make_model llama Q8_0 "$m" || finish
run=("$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 4 --ctx 64 --ignore-eos --temp 0 --print-tokens)
cd "$work" || exit 1
"${run[@]}" >good 2>log || miss "without faults: $(tail -n 1 log)"

# refuses FAULT WORDS
refuses()
{
    VKFAULT=$1 ZINC_VULKAN_LIB=$faulty ZINC_VULKAN_CACHE=none "${run[@]}" >out 2>err
    rc=$?
    [ $rc -ne 0 ] && [ $rc -lt 120 ] || miss "$1: exit $rc"
    [ "$(grep -c "$2" err)" -ge 1 ] || miss "$1: no '$2' in: $(cat err)"
    printf '%-34s %s\n' "$1" "$(grep "$2" err | tail -n 1 | cut -c 1-150)"
}
refuses instance=-9 "no Vulkan driver here"
refuses devices=none "no Vulkan device here"
refuses old=1 "lacks Vulkan 1.2"
refuses device=-3 "opening .*VK_ERROR_INITIALIZATION_FAILED"
refuses alloc=1:-2 "no room for"
refuses alloc=10:-2 "no room for"
case $build in */sanitize) ;; *) refuses alloc=4:-2 "no room for"; refuses alloc=7:-2 "no room for" ;; esac
refuses shader=2:-1000012000 "rejects kernel"
refuses pipeline=5:-13 "rejects kernel"
refuses submit=1:-4 "VK_ERROR_DEVICE_LOST"
refuses submit=4:-4 "VK_ERROR_DEVICE_LOST"
refuses wait=2:-4 "VK_ERROR_DEVICE_LOST while .* a step.*details in"
ls zinc-report-*/report.txt >/dev/null 2>&1 || miss "a lost device leaves no report"
ls zinc-report-*/stream.zstream >/dev/null 2>&1 || miss "the report has no stream"

# refused VARIABLES WORDS: a machine or an option that cannot be served
refused()
{
    env $1 "${run[@]}" >out 2>err && miss "$1: it ran"
    grep -q "$2" err || miss "$1: no '$2' in: $(cat err)"
    printf '%-34s %s\n' "$1" "$(grep "$2" err | tail -n 1 | cut -c 1-150)"
}
refused ZINC_VULKAN_LIB=/nowhere/libvulkan.so "cannot be opened"
refused VK_DRIVER_FILES=/nowhere/icd.json "no Vulkan"
"${run[@]}" --device 9 >out 2>err && miss "--device 9: it ran"
grep -q "there is no device 9; here: " err || miss "--device 9: $(cat err)"
"${run[@]}" --device-name nonesuch >out 2>err && miss "--device-name: it ran"
grep -q "no device's name contains 'nonesuch'" err || miss "--device-name: $(cat err)"
"${run[@]}" --device-name LLVM >out 2>err || [ -n "${ZINC_TEST_VULKAN:-}" ] || miss "--device-name LLVM: $(tail -n 1 err)"

# auto goes on without it
VKFAULT=device=-3 ZINC_VULKAN_LIB=$faulty "${run[@]}" --tier auto >out 2>err || miss "auto: $(tail -n 1 err)"

# same VARIABLES: the same tokens
same()
{
    env $1 "${run[@]}" >out 2>err || miss "$1: $(tail -n 1 err)"
    cmp -s good out || miss "$1: $(cat out) instead of $(cat good)"
}

# ---- a device with small buffers: weights and cache lie in several, and one that a layer's cache does not fit is refused ----
cut=("${run[@]}" --ctx 8192)
ZINC_LOG=vk=info ZINC_VULKAN_BUFFER=2 "${cut[@]}" >out 2>err || miss "buffers of 2 MiB: $(tail -n 1 err)"
cmp -s good out || miss "buffers of 2 MiB: $(cat out) instead of $(cat good)"
grep -q "of weights.* 2 buffers" err || miss "the weights were not cut: $(grep weights err)"
grep -q "12 MiB of KV cache in 6 buffers" err || miss "the KV cache was not cut: $(grep KV err)"
ZINC_VULKAN_BUFFER=1 "${cut[@]}" >out 2>err && miss "buffers of 1 MiB: it ran"
grep -q "a part of the KV cache, at 0 MiB, is larger than the 1 MiB" err || miss "buffers of 1 MiB: $(cat err)"

# where the context is zinc's own choice, it takes less
ZINC_VULKAN_BUFFER=1 "$zinc" chat -m "$m" --kv f32 </dev/null >out 2>err || miss "a chat in buffers of 1 MiB: $(tail -n 1 err)"
grep -q "trying again with half the context" err && grep -q "1 slot of 2048 tokens" err || miss "a chat in buffers of 1 MiB: $(cat err)"

same ZINC_VULKAN_WITHOUT=dot4,bar

# ---- a misuse of the interface: the validation layer ends the run, nobody else sees it ----
misuse="VKFAULT=misuse=1 ZINC_VULKAN_LIB=$faulty"
same "$misuse"
env ZINC_VULKAN_VALIDATE=1 "${run[@]}" >out 2>err
rc=$?
if grep -q "is not installed" err; then
    echo "skipped: 3 cases: no validation layer (apt-get install vulkan-validationlayers)"
else
    [ $rc -eq 0 ] && cmp -s good out || miss "validated: exit $rc: $(tail -n 1 err)"
    refused "$misuse ZINC_VULKAN_VALIDATE=1" "the validation layer reports 1 error"
    grep -q "validation: .*QueuePriorities" err || miss "misuse: the message is not in the log: $(cat err)"
fi

# ---- the cache ----
export ZINC_VULKAN_CACHE=$work/deep/er/cache
same X=first
file=$(ls "$ZINC_VULKAN_CACHE"/vulkan-*.cache 2>/dev/null)
[ -s "$file" ] || miss "no cache was written"
cp "$file" whole
# broken WORDS: noticed, ignored, written anew with the head that belongs there
broken()
{
    same X=broken
    grep -q "is ignored: $1" err || miss "cache: no '$1' in: $(cat err)"
    cmp -s -n 16 whole "$file" || miss "cache, after '$1': it was not written anew"
}
printf x | dd of="$file" bs=1 seek=40 conv=notrunc 2>/dev/null
broken "its checksum is wrong"
head -c 20 whole >"$file"
broken "it is not a pipeline cache of zinc"
head -c 48 whole >"$file"
broken "its length is not what its head says"
case $build in
*/sanitize) ;; # the same two checks refuse these
*)
    { cat whole; echo more; } >"$file"
    broken "its length is not what its head says"
    head -c 100000 /dev/urandom >"$file"
    broken "it is not a pipeline cache of zinc"
    ;;
esac
{ head -c 8 whole; printf 'aaaaaaaa'; tail -c +17 whole; } >"$file"
broken "it is of another device"
same X=again
grep -q "ignored" err && miss "cache, written anew: $(cat err)"
rm -rf deep && touch deep
same X=nowhere # the folder cannot be made
finish
