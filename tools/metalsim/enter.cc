// tools/metalsim/enter.cc: into a kernel, as a work-item: the arguments of an entry that tools/gen/msl_text.c writes.
#include <metal_stdlib>

extern "C" void msim_enter(const void *entry, const void *args, uchar *shared, uint tid, uint size, const uint *group, const uint *groups)
{
    typedef void (*entry_fn)(const void *, uchar *, uint, uint3, uint3, uint3);
    reinterpret_cast<entry_fn>(const_cast<void *>(entry))(args, shared, tid, uint3(size, 1, 1), uint3(group[0], group[1], group[2]),
                                                          uint3(groups[0], groups[1], groups[2]));
}
