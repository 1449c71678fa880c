#!/usr/bin/env python3
"""tools/kernel_table.py [--check] [--build DIR]: the tables of doc/amd-kernels.md, from the code objects of the build.

For each kernel and chip what decides its speed before any card runs it: registers, spills, scratch, code size and how many
waves fit a SIMD. The numbers come from the compiler's metadata (an ELF note in msgpack), the code's size from the symbol
table, the loops from the disassembler. A table lies between a line "<!-- table: NAME -->" and "<!-- end -->"; its lines
are replaced. --check changes nothing and exits with 1 where the file would change (another compiler: other numbers)."""

import argparse
import collections
import glob
import os
import re
import struct
import subprocess
import sys

CHIPS = ["gfx12-generic", "gfx11-generic"]
DOC = "doc/amd-kernels.md"
OBJDUMP = os.environ.get("OBJDUMP", "llvm-objdump-19")
SIMD_VGPRS, VGPR_GRANULE, SIMD_WAVES, WGP_SIMDS, WGP_LDS = 1536, 24, 16, 4, 128 << 10

# The kernels of the main families: decode, then prompts. Shared memory in bytes: what dispatch asks for at the shape named.
HOT = {
    "decode": [("matvec_q4k_r1", 6272, "8B, 4096 in"), ("matvec_q6k_r1", 16512, "8B, 12288 in"),
               ("matvec_q4k_q6k_r1", 6272, "8B, q k v"), ("matvec_q80_r1", 3712, "35B, 2048 in"),
               ("matvec_mxfp4_r1", 4992, ""), ("matvec_q4k_r8", 50176, "8 rows of 4096"),
               ("moe_up_q4k", 3712, "35B"), ("moe_down_q5k", 8256, "35B"), ("moe_up_mxfp4", 4992, "gpt-oss"),
               ("moe_down_mxfp4", 17184, "gpt-oss"), ("router_f32", 12928, "35B"), ("attn_h64", 28688, "gpt-oss"),
               ("attn_h128", 41488, "8B"), ("attn_h256", 37136, "35B"), ("gdn_step_h128", 2080, "35B"),
               ("rope_kv", 4096, "8B"), ("embed", 0, ""), ("norm", 1024, ""), ("sample", 4096, "")],
    "prompt": [("gemm_q4k", 49152, ""), ("gemm_q5k", 49152, ""), ("gemm_q6k", 49152, ""), ("gemm_q80", 49152, ""),
               ("gemm_mxfp4", 49152, ""), ("gemm_q4k_q6k", 49152, ""), ("gemm_f32", 0, ""),
               ("attn_prompt_small_h64", 29696, ""), ("attn_prompt_small_h128", 54272, ""),
               ("attn_prompt_small_h256", 52736, "gfx12"), ("attn_prompt_h256", 54784, "gfx11"), ("act_bf16", 0, ""),
               ("gdn_inputs", 0, ""), ("gdn_scan", 0, ""),
               ("gdn_norm", 0, ""), ("moe_sort", 0, ""), ("moe_mix", 0, "")],
}
# Inner loops worth counting: (kernel, weights that a lane unpacks in an iteration).
LOOPS = [("gemm_q4k", 256), ("gemm_q6k", 128), ("gemm_q80", 128), ("attn_prompt_small_h128", 0)]


def msgpack(b, i=0):
    """The value at b[i:], and where the next one starts. What code-object metadata uses: maps, arrays, text, numbers."""
    t, i = b[i], i + 1
    many = None
    if t < 0x80:
        return t, i
    if t < 0x90:
        many = ("map", t & 15)
    elif t < 0xA0:
        many = ("array", t & 15)
    elif t < 0xC0:
        many = ("text", t & 31)
    elif t in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[t], i
    elif t >= 0xE0:
        return t - 256, i
    else:
        code = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
        size = {0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDC: ("array", ">H"), 0xDD: ("array", ">I"),
                0xDE: ("map", ">H"), 0xDF: ("map", ">I")}
        fmt = code.get(t) or size[t][1]
        n = struct.unpack_from(fmt, b, i)[0]
        i += struct.calcsize(fmt)
        if t in code:
            return n, i
        many = (size[t][0], n)
    kind, n = many
    if kind == "text":
        return b[i:i + n].decode(), i + n
    out = [] if kind == "array" else {}
    for _ in range(n):
        v, i = msgpack(b, i)
        if kind == "map":
            out[v], i = msgpack(b, i)
        else:
            out.append(v)
    return out, i


def read_object(path):
    """{kernel: metadata, with .code_bytes} of a code object."""
    b = open(path, "rb").read()
    off, n = struct.unpack_from("<Q", b, 40)[0], struct.unpack_from("<H", b, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", b, off + 64 * i) for i in range(n)]
    kernels, sizes = {}, {}
    for _, kind, _, _, at, size, link, *_ in sections:
        if kind == 7:  # note: name size, description size, type; both padded to 4
            name, desc, _ = struct.unpack_from("<III", b, at)
            at += 12 + (name + 3) // 4 * 4
            for k in msgpack(b[at:at + desc])[0]["amdhsa.kernels"]:
                kernels[k[".name"][2:]] = k
        elif kind == 2:  # symbols
            text = sections[link][4]
            for i in range(at, at + size, 24):
                name, _, _, _, _, bytes_ = struct.unpack_from("<IBBHQQ", b, i)
                sizes[b[text + name:b.index(b"\0", text + name)].decode()] = bytes_
    for name, k in kernels.items():
        k["bytes"], k["path"] = sizes["k_" + name], path
    return kernels


def waves(k, threads, shared):
    """Waves that a SIMD holds: by registers, and with whole work-groups by shared memory too (WGP mode, 4 SIMDs)."""
    by_regs = min(SIMD_WAVES, SIMD_VGPRS // (-(-k[".vgpr_count"] // VGPR_GRANULE) * VGPR_GRANULE))
    per_group = threads // 32
    groups = by_regs * WGP_SIMDS // per_group
    if shared:
        groups = min(groups, WGP_LDS // (-(-shared // 512) * 512))
    return by_regs, groups * per_group / WGP_SIMDS


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(r) + " |" for r in rows]


def hot_rows(objects, threads, hot):
    rows = []
    for name, shared, shape in hot:
        cells = [f"`{name}`", str(threads[name]), (f"{shared / 1024:.1f}" + (f" ({shape})" if shape else "")) if shared else "-"]
        for chip in CHIPS:
            k = objects[chip].get(name)
            if not k: # not for this target
                cells += ["-"] * 4
                continue
            regs, held = waves(k, threads[name], shared)
            spills = k[".vgpr_spill_count"] + k[".sgpr_spill_count"]
            cells += [f"{k['.vgpr_count']} / {k['.sgpr_count']}", f"{regs} / {held:g}",
                      f"{spills} / {k['.private_segment_fixed_size']}" if spills or k[".private_segment_fixed_size"] else "-",
                      f"{k['bytes'] / 1024:.1f}"]
        rows.append(cells)
    head = ["kernel", "threads", "shared KiB"]
    for chip in CHIPS:
        head += [f"{chip}: VGPR / SGPR", "waves", "spills / scratch B", "code KiB"]
    return table(head, rows)


def all_rows(objects, threads):
    """Families of kernels, by what is left of the name without the weight types."""
    known = re.findall(r"^QTYPE_(?:(?:FLOAT|BLOCK)\(\w+, +\w+, +|PAIR\()(\w+)", open("kernels/qtypes.def").read(), re.M)
    sets = "|".join(sorted(known + ["any"], key=len, reverse=True))
    families = collections.OrderedDict()
    for name in threads:
        if name in objects[CHIPS[0]]:
            families.setdefault(re.sub(rf"^(matvec|router|moe_up|moe_down|gemm)_({sets})(?=_|$)", r"\1_*", name), []).append(name)
    rows = []
    for family, names in families.items():
        cells = [f"`{family}`", str(len(names))]
        for chip in CHIPS:
            ks = [objects[chip][n] for n in names if n in objects[chip]]
            if not ks:
                cells += ["-"] * 4
                continue
            span = lambda f: f"{min(map(f, ks)):g}" + (f" to {max(map(f, ks)):g}" if min(map(f, ks)) != max(map(f, ks)) else "")
            spilled = [(n, objects[chip][n]) for n in names
                       if n in objects[chip] and objects[chip][n][".private_segment_fixed_size"]]
            cells += [span(lambda k: k[".vgpr_count"]), span(lambda k: waves(k, 32, 0)[0]),
                      ", ".join(f"{n.replace(family.split('*')[0], '') if '*' in family else ''} "
                                f"{k['.private_segment_fixed_size']}".strip() for n, k in spilled) or "-",
                      span(lambda k: round(k["bytes"] / 1024, 1))]
        rows.append(cells)
    head = ["kernels", "n"]
    for chip in CHIPS:
        head += [f"{chip}: VGPR", "waves by VGPR", "scratch B", "code KiB"]
    return table(head, rows)


def loops(k):
    """The kernel's loops: lists of mnemonics between a backward branch's target and the branch."""
    text = subprocess.run([OBJDUMP, "-d", "--disassemble-symbols=k_" + k[".name"][2:], k["path"]], capture_output=True,
                          text=True, check=True).stdout
    at, ops, found = [], [], []
    for line in text.splitlines():
        m = re.match(r"\s+(\S+)(.*?)//\s*([0-9A-F]+):(.*)", line)
        if not m:
            continue
        at.append(int(m[3], 16))
        ops.append(m[1])
        to = re.search(r"<k_\w+\+0x([0-9a-f]+)>", m[4])
        if m[1].startswith(("s_cbranch", "s_branch")) and to:
            target = at[0] + int(to[1], 16)
            if target <= at[-1]:
                found.append(ops[at.index(target):] if target in at else [])
    return [f for f in found if f]


KINDS = [("wmma", r"v_wmma"), ("fma", r"v_(dual_)?(fma|fmac|fmaak|fmamk|pk_fma)"),
         ("other VALU", r"v_"), ("global loads", r"global_load"), ("LDS", r"ds_"), ("scratch", r"scratch_"),
         ("SALU", r"s_(?!delay|clause|nop|wait|code_end)"), ("waits", r"s_wait")]


def loop_rows(objects):
    """The shortest loop with several matrix instructions: a lane's work on a chunk or on a tile of positions."""
    rows = []
    for name, weights in LOOPS:
        for chip in CHIPS:
            loop = min((f for f in loops(objects[chip][name]) if sum(o.startswith("v_wmma") for o in f) > 3), key=len)
            count = collections.Counter(next((kind for kind, p in KINDS if re.match(p, o)), "hints") for o in loop)
            valu = count["fma"] + count["other VALU"]
            rows.append([f"`{name}`", chip] + [str(count[kind]) for kind, _ in KINDS] +
                        [f"{valu / weights:.1f}" if weights else "-"])
    return table(["loop of", "chip"] + [k for k, _ in KINDS] + ["VALU per weight"], rows)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build/kernels")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    threads = {}
    try:
        for line in open(os.path.join(a.build, "threads.txt")):
            name, n, _ = line.split()
            threads[name[2:]] = int(n)
        objects = {c: {} for c in CHIPS}
        for chip in CHIPS:
            for path in sorted(glob.glob(f"{a.build}/{chip}/*.co")):
                objects[chip].update(read_object(path))
            if not objects[chip]:
                sys.exit(f"kernel_table: no code objects in {a.build}/{chip}; `make kernels` compiles them")
        made = {"decode": hot_rows(objects, threads, HOT["decode"]), "prompt": hot_rows(objects, threads, HOT["prompt"]),
                "all": all_rows(objects, threads), "loops": loop_rows(objects)}
        text = open(DOC).read()
    except (OSError, KeyError, subprocess.CalledProcessError) as e:
        sys.exit(f"kernel_table: {e!r}; run it from the repository's root after `make kernels`")
    out = text
    for name, lines in made.items():
        out = re.sub(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join(lines) + "\n" + m[2], out,
                     flags=re.S)
    if a.check:
        sys.exit(f"kernel_table: {DOC} is not what this build's kernels are; tools/kernel_table.py rewrites it"
                 if out != text else 0)
    open(DOC, "w").write(out)


if __name__ == "__main__":
    main()
