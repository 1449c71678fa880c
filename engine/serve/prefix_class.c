#include "engine/serve/prefix_class.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#else
#include <elf.h>
#include <link.h>
#endif
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "engine/priv.h"

enum { SAMPLE = 1024 }; /* bytes of a tensor at either end */

static void add(struct prefix_hash *h, const void *p, size_t n)
{
    XXH128_hash_t x = XXH3_128bits_withSeed(p, n, h->lo ^ (h->hi << 1 | h->hi >> 63));
    *h = (struct prefix_hash){ x.low64, x.high64 };
}

static void add_text(struct prefix_hash *h, const char *s)
{
    add(h, s, strlen(s) + 1);
}

#ifdef __APPLE__
/* The UUID that the linker leaves in a program (ld(1), LC_UUID): other code, other UUID. */
static void add_program(struct prefix_hash *h)
{
    const struct mach_header_64 *m = (const struct mach_header_64 *)_dyld_get_image_header(0);
    const uint8_t *at = (const uint8_t *)(m + 1);
    for (uint32_t i = 0; i < m->ncmds; i++) {
        const struct load_command *c = (const struct load_command *)at;
        if (c->cmd == LC_UUID)
            add(h, ((const struct uuid_command *)at)->uuid, sizeof((const struct uuid_command *)at)->uuid);
        at += c->cmdsize;
    }
}
#else
/* The note that the linker leaves in a program (ld(1), --build-id; elf(5), "Notes"): other code, other note. */
static int add_build(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const uint8_t *at = (const uint8_t *)(uintptr_t)(info->dlpi_addr + ph->p_vaddr), *end = at + ph->p_memsz;
        while (ph->p_type == PT_NOTE && (size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) n;
            memcpy(&n, at, sizeof n);
            uint64_t whole = sizeof n + align_up(n.n_namesz, 4) + align_up(n.n_descsz, 4);
            if (whole > (size_t)(end - at))
                break;
            if (n.n_type == NT_GNU_BUILD_ID)
                add(user, at + sizeof n + align_up(n.n_namesz, 4), n.n_descsz);
            at += whole;
        }
    }
    return 1; /* the program itself is the first */
}
static void add_program(struct prefix_hash *h)
{
    dl_iterate_phdr(add_build, h);
}
#endif

static void add_model(struct prefix_hash *h, const struct gguf *g)
{
    for (uint32_t i = 0; i < g->n_parts; i++) {
        const struct gguf_part *p = &g->parts[i];
        struct stat st = { 0 };
        if (p->path)
            stat(p->path, &st);
        uint64_t what[] = { p->bytes, (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
        uint64_t head = p->bytes;
        for (uint64_t t = 0; t < g->n_tensors; t++)
            if (g->tensors[t].part == i)
                head = MIN(head, g->tensors[t].file_off);
        add(h, what, sizeof what);
        add(h, p->map, head);
    }
    for (uint64_t t = 0; t < g->n_tensors; t++) {
        uint64_t n = g->tensors[t].bytes, some = MIN(n, (uint64_t)SAMPLE);
        add(h, g->tensors[t].data, some);
        add(h, g->tensors[t].data + n - some, some);
    }
}

struct prefix_hash prefix_class(const struct engine *eng, bool generated)
{
    const struct engine_info *in = &eng->info;
    const struct tier_info *t = &eng->tier->info;
    struct prefix_hash h = { 0 };
    uint32_t arithmetic[] = { in->exact, generated, in->n_ctx, t->by_capacity, t->kv_planes, t->firmware,
                              t->by_capacity ? eng->decode.s->h.row_cap : 0, in->few_rows,
                              t->by_capacity ? eng->prefill.s->h.row_cap : 0 };
    add_text(&h, ZINC_VERSION);
    add_program(&h);
    add_model(&h, eng->gguf);
    add_text(&h, in->tier);
    add_text(&h, in->plan);
    add_text(&h, in->device);
    add(&h, arithmetic, sizeof arithmetic);
    for (uint32_t i = 0; i < eng->prefill.s->h.n_cmds; i++) { /* what is fused differs by options and tiers */
        uint16_t op = (uint16_t)eng->prefill.s->cmds[i].op;
        const ka_rope_kv *kv = stream_args(eng->prefill.s, i);
        uint32_t type = op == CMD_ROPE_KV ? kv->kv_type : 0;
        float mscale = op == CMD_ROPE_KV ? kv->mscale : 0;
        add(&h, &op, sizeof op);
        add(&h, &mscale, sizeof mscale);
        add(&h, &type, sizeof type);
    }
    add(&h, eng->prefill.s->consts, eng->prefill.s->h.const_bytes); /* how positions are scaled */
    return h;
}
