# tools/amd_walk.awk: a module's assembly for AMD with its kernels as bodies that kernels/walk_amd.S calls:
#   - where a wave ends it goes to .Lwalk_return, in the padding behind the code, and from there to the address in shared memory
#     that m0 leads to;
#   - what gfx12 has in ttmp9 and ttmp7, which only the hardware writes, it finds in s104 and s105.
# Everything stays as long as it is, so that the object differs in a few words. What a body must leave alone is an error: m0, and
# s104 and s105 on gfx12.
#     awk -f tools/amd_walk.awk kernel.s >body.s
/^\t\.amdgcn_target .*gfx12/ { gfx12 = 1 }
/^\t[sv]_|^\t(global|flat|ds|scratch|buffer)_/ {
    sub(/ *;.*/, "")
    if (/[^a-z]m0/ || (gfx12 && /[^a-z]s10[4-9]|[^a-z]s\[[0-9]+:10[4-9]\]/)) {
        print "tools/amd_walk.awk: a body must not have '" substr($0, 2) "' (mk/kernels.mk limits registers)" >"/dev/stderr"
        exit 1
    }
    sub(/^\ts_endpgm/, "\ts_branch .Lwalk_return")
    sub(/^\ts_sendmsg .*MSG_DEALLOC_VGPRS.*/, "\ts_nop 0")
    gsub(/ttmp9/, "s104")
    gsub(/ttmp7/, "s105")
    if (/ttmp/) {
        print "tools/amd_walk.awk: '" substr($0, 2) "': what a body finds there is not known" >"/dev/stderr"
        exit 1
    }
}
/^\t\.fill 96, 4, 3214868480/ { # s_code_end, of which this takes 13
    print ".Lwalk_return:"
    if (gfx12)
        print "\ts_wait_loadcnt 0\n\ts_wait_dscnt 0\n\ts_wait_kmcnt 0"
    else
        print "\ts_waitcnt 0\n\ts_nop 0\n\ts_nop 0"
    alu = gfx12 ? "\ts_wait_alu 0" : "\ts_waitcnt_depctr 0"
    print alu "\n\ts_mov_b32 exec_lo, -1\n\tv_mov_b32_e32 v0, m0\n\tds_load_b64 v[0:1], v0"
    print gfx12 ? "\ts_wait_dscnt 0" : "\ts_waitcnt lgkmcnt(0)"
    print "\tv_readfirstlane_b32 s0, v0\n\tv_readfirstlane_b32 s1, v1\n" alu "\n\ts_setpc_b64 s[0:1]"
    print "\t.fill 83, 4, 3214868480"
    returns = 1
    next
}
{ print }
END {
    if (!returns) {
        print "tools/amd_walk.awk: no padding behind the code" >"/dev/stderr"
        exit 1
    }
}
