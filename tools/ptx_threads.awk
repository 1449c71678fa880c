# tools/ptx_threads.awk: tells ptxas how many threads a kernel is launched with, which plain C cannot say.
#     awk -f tools/ptx_threads.awk threads.txt module.s >module.ptx
# threads.txt: "name threads module" a line, the module's. The directives go between an entry's parameter list and its body. Decode
# products are launched with two work-groups a core (rt/dispatch.c), so both must find registers, those of a single row (_r1) with
# two of 256 or one of 512, which comes to the same, those of two rows (_r2) with one of 512; attention of single rows
# with what attn_group_per_core says (kernels/attn_shared.h). Kernels that use kernels/hw/cluster.h are told its size.
BEGIN { threads["k_walk"] = 256; groups["k_walk"] = 2; per_core["k_attn_group_h64"] = 5; per_core["k_gdn_step_many"] = 2; per_core["k_attn_group_h128"] = 4; per_core["k_attn_group_h256"] = 2 }
FILENAME == ARGV[1] { threads[$1] = $2; groups[$1] = $1 ~ /_r[12]$/ ? 1 : $3 ~ /^matvec|^experts_|^shexp_/ || $1 ~ /_n16$|gemm_half.*_n32$/ ? 2 : $1 ~ /rows_half.*_n64$|gemm_half.*_n256$|attn_wgmma|_matmul8_|_ring$/ ? 1 : per_core[$1] + 0; next }
/^\.target sm_90/ { clusters = 1 }
/^\.visible \.entry / {
    name = $3
    sub(/\(.*/, "", name)
    entry = name
}
{ print }
entry != "" && /^\)/ {
    if (entry in threads)
        printf ".maxntid %d, 1, 1\n", entry ~ /_r1$/ ? 512 : threads[entry] # MV_WIDE
    if (groups[entry])
        printf ".minnctapersm %d\n", groups[entry]
    if (clusters && entry ~ /_matmul8_/) # kernels/hw/cluster.h
        print ".reqnctapercluster 2, 1, 1"
    entry = ""
}
