/* A wave: scalar operands that are no registers, the instruction loop, faults. */
#include "tools/amdsim/isa/group.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CODE_SHARED_BASE = 235, CODE_PRIVATE_LIMIT = 238, CODE_VCCZ = 251, CODE_EXECZ = 252, CODE_SCC = 253 };

static const uint32_t inline_f32[9] = { 0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                        0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983 };
static const uint64_t inline_f64[9] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                       0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                       0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};

/* Inline integers, and the flags; false: another kind of operand. */
static bool small_operand(const struct wave *w, uint32_t code, int32_t *v)
{
    if (code >= 128 && code <= 192)
        *v = (int32_t)code - 128;
    else if (code >= 193 && code <= 208)
        *v = 192 - (int32_t)code;
    else if (code == OPND_NULL)
        *v = 0;
    else if (code == CODE_VCCZ)
        *v = w->s[OPND_VCC] == 0;
    else if (code == CODE_EXECZ)
        *v = w->s[OPND_EXEC] == 0;
    else if (code == CODE_SCC)
        *v = (int32_t)w->scc;
    else
        return false;
    return true;
}

static void no_operand(const struct wave *w, uint32_t code)
{
    /* The wave is const for those who only read operands; a fault is not an operand. */
    wave_fault((struct wave *)(uintptr_t)w, ISA_FAULT_ILLEGAL,
               "operand code %u is none that a scalar source can have", code);
}

uint32_t s_get_const(const struct wave *w, const struct inst *in, uint32_t code)
{
    int32_t v;
    if (small_operand(w, code, &v))
        return (uint32_t)v;
    if (code == OPND_LITERAL)
        return in->literal;
    if (code >= 240 && code <= 248)
        return inline_f32[code - 240];
    if (code >= CODE_SHARED_BASE && code <= CODE_PRIVATE_LIMIT)
        return code & 1 ? 0 : ~0u; /* the low half: apertures begin at multiples of 2^48 and are 4 GiB long */
    if (code < 128)
        return w->s[code];
    no_operand(w, code);
    return 0;
}

uint64_t s_get64_const(const struct wave *w, const struct inst *in, uint32_t code)
{
    int32_t v;
    if (small_operand(w, code, &v))
        return (uint64_t)(int64_t)v;
    if (code == OPND_LITERAL)
        return in->literal;
    if (code >= 240 && code <= 248)
        return inline_f64[code - 240];
    if (code >= CODE_SHARED_BASE && code <= CODE_PRIVATE_LIMIT) {
        uint64_t base = (code - CODE_SHARED_BASE) / 2 ? 2ull << 48 : 1ull << 48;
        return code & 1 ? base : base | 0xffffffff;
    }
    if (code < 128)
        return w->s[code] | (uint64_t)w->s[code + 1] << 32;
    no_operand(w, code);
    return 0;
}

void wave_fault(struct wave *w, enum isa_fault_kind k, const char *fmt, ...)
{
    struct isa_fault *f = &w->fault;
    w->stop = true;
    if (f->kind != ISA_FAULT_NONE)
        return;
    f->kind = k;
    f->pc = w->at;
    f->wave = w->index;
    uint32_t dw[4], n = 0;
    for (; n < 4; n++) {
        const void *p = vm_at(w->g->l->vm, w->at + n * 4, VM_EXEC);
        if (!p)
            break;
        memcpy(&dw[n], p, 4);
    }
    isa_describe(w->chip, dw, n, f->text, sizeof f->text);
    size_t used = strlen(f->text);
    used += (size_t)snprintf(f->text + used, sizeof f->text - used, ": ");
    va_list ap;
    va_start(ap, fmt);
    if (used < sizeof f->text)
        vsnprintf(f->text + used, sizeof f->text - used, fmt, ap);
    va_end(ap);
}

void wave_end(struct wave *w)
{
    w->status = WAVE_ENDED;
    w->stop = true;
    w->g->ended |= 1u << w->index;
    barrier_wave_ended(w->g);
}

static bool enter_page(struct wave *w)
{
    gva page = w->pc & ~(gva)(VM_PAGE - 1);
    const uint8_t *host = vm_at(w->g->l->vm, page, VM_EXEC);
    w->at = w->pc;
    if (!host) {
        bool mapped = vm_at(w->g->l->vm, page, 0) != NULL;
        w->fault.va = w->pc;
        w->fault.exec = true;
        wave_fault(w, ISA_FAULT_PAGE, "pc 0x%llx is in a page that is %s", (unsigned long long)w->pc,
                   mapped ? "not mapped for execution" : "not mapped");
        return false;
    }
    if (w->pc & 3) {
        wave_fault(w, ISA_FAULT_ILLEGAL, "pc 0x%llx is not a multiple of 4", (unsigned long long)w->pc);
        return false;
    }
    w->decoded = code_page_of(w->g->l->code, host);
    w->page_va = page;
    if (!w->decoded)
        wave_fault(w, ISA_FAULT_ILLEGAL, "amdsim is out of memory for decoded instructions");
    return w->decoded != NULL;
}

static __attribute__((cold)) bool beyond_vgprs(struct wave *w, const struct inst *in)
{
    wave_fault(w, ISA_FAULT_REGISTER, "names v%u, but the wave was launched with %u VGPRs", in->vmax, w->n_vgpr);
    return false;
}

uint64_t wave_run(struct wave *w, uint64_t insts)
{
    uint64_t n = 0;
    w->stop = w->sleeps = false;
    while (n < insts && !w->stop) {
        gva pc = w->pc;
        if (__builtin_expect(pc - w->page_va >= VM_PAGE || (pc & 3), 0) && !enter_page(w))
            break;
        struct inst *in = &w->decoded->at[(pc & (VM_PAGE - 1)) >> 2];
        __builtin_prefetch(in + 6); /* about three ahead: a decoded loop does not fit the first cache */
        w->at = pc;
        inst_fn *run = __atomic_load_n(&in->run, __ATOMIC_ACQUIRE);
        if (__builtin_expect(!run, 0)) {
            if (!code_decode(w, in))
                break;
            run = in->run;
        }
        w->pc = pc + in->dwords * 4;
        if (__builtin_expect(in->vmax >= w->n_vgpr, 0) && !beyond_vgprs(w, in))
            break;
        if (__builtin_expect(w->strict != NULL, 0) && !strict_check(w, in))
            break;
        w->tally[in->kind]++;
        n++;
        run(w, in);
    }
    return n;
}
