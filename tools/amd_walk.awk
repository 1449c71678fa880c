# tools/amd_walk.awk: a kernel's assembly for AMD as a body that kernels/walk_amd.S calls: where a wave ends it returns to s[96:97],
# and what gfx12 has in ttmp9 and ttmp7, which only the hardware writes, it finds in s98 and s99. Each instruction stays as long
# as it is, so that the object differs in single words. What could disturb the walk is an error: a call, m0, registers from s96 on.
#     awk -f tools/amd_walk.awk kernel.s >body.s
/^\t[sv]_|^\t(global|flat|ds|scratch|buffer)_/ {
    sub(/ *;.*/, "")
    if (match($0, /s_swappc|s_setpc|s_call|[^a-z]m0|[^a-z]s9[6-9]|[^a-z]s10[0-9]|[^a-z]s\[[0-9]+:(9[6-9]|10[0-9])\]/)) {
        print "tools/amd_walk.awk: a body must not have '" substr($0, 2) "' (mk/kernels.mk limits registers)" >"/dev/stderr"
        exit 1
    }
    sub(/^\ts_endpgm/, "\ts_setpc_b64 s[96:97]")
    sub(/^\ts_sendmsg .*MSG_DEALLOC_VGPRS.*/, "\ts_nop 0")
    gsub(/ttmp9/, "s98")
    gsub(/ttmp7/, "s99")
    if (/ttmp/) {
        print "tools/amd_walk.awk: '" substr($0, 2) "': what a body finds there is not known" >"/dev/stderr"
        exit 1
    }
}
{ print }
