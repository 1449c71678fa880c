/* Streams of every family as launches of the Vulkan kernels, for devices from small to large; no device is needed. */
#include "tests/stream/compile.h"

#ifdef ZINC_VULKAN
#include "tests/stream/waits.h"
#include "vk/lower.h"

struct device {
    const char *name;
    struct vk_caps caps;
};
#define GRID { 65535, 65535, 65535 }
static const struct device devices[] = {
    { "software", { 8, 32, 2, 32 << 10, GRID, true, true, false, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "software, 4 lanes", { 4, 32, 2, 32 << 10, GRID, true, false, false, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "16 lanes, 16 KiB", { 16, 128, 12, 16 << 10, GRID, false, false, false, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "8 lanes, 32 KiB", { 8, 256, 24, 32 << 10, GRID, false, true, true, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "32 lanes, 16 KiB", { 32, 256, 16, 16 << 10, GRID, false, true, true, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "32 lanes, 48 KiB", { 32, 256, 132, 48 << 10, GRID, false, true, true, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "32 lanes, matrices", { 32, 256, 132, 48 << 10, GRID, false, true, true, VK_COOPMAT_KHR, true, 16, 16, 16 } },
    { "64 lanes, 32 KiB", { 64, 256, 48, 32 << 10, GRID, false, true, true, VK_COOPMAT_NONE, false, 0, 0, 0 } },
    { "64 lanes, matrices", { 64, 256, 48, 64 << 10, GRID, false, true, true, VK_COOPMAT_KHR, true, 16, 16, 16 } },
};
enum { N_DEVICES = sizeof devices / sizeof devices[0], DECODE_VARIANTS = 40 };

static struct dispatch_plan *plan_of(const struct device *dev, struct vk_lowering *l, const struct stream *s,
                                     uint32_t max_rows)
{
    const struct dispatch_target t = { .n_cores = dev->caps.cores, .shared_max = dev->caps.shared_max,
                                       .shared_core = dev->caps.shared_max, .kernels = vk_kernels, .lower = vk_lower,
                                       .user = l };
    struct dispatch_plan *p = NULL;
    struct err e = { 0 };
    l->caps = dev->caps;
    int rc = dispatch_build(s, &t, max_rows, 0, &p, &e);
    ck_assert_msg(rc == 0, "%s: %s", dev->name, e.msg);
    return p;
}

static void check_launches(const struct device *dev, const struct vk_lowering *l, const struct dispatch_plan *p)
{
    const struct vk_caps *c = &dev->caps;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct dispatch *x = &p->d[i];
        ck_assert_uint_lt(x->variant, l->n);
        const struct vk_variant *v = &l->variant[x->variant];
        const char *name = vk_kernels[v->kernel].module;
        uint32_t threads = v->shape.v[0];
        ck_assert_msg(v->kernel == (enum vk_kernel)x->kernel, "%s: %s is launched as another kernel", dev->name, name);
        ck_assert_msg(v->shape.n >= 2 && v->shape.n <= VK_SPECS, "%s: %s: %u constants", dev->name, name, v->shape.n);
        ck_assert_msg(threads && threads <= c->threads && threads % c->wave == 0 && v->shape.v[1] == c->wave,
                      "%s: %s: %u threads of %u lanes", dev->name, name, threads, v->shape.v[1]);
        for (int k = 0; k < 3; k++)
            ck_assert_msg(x->grid[k] && x->grid[k] <= c->max_grid[k], "%s: %s: %u work-groups along %c", dev->name,
                          name, x->grid[k], "xyz"[k]);
        ck_assert_msg(!x->concurrent || (i && p->d[i - 1].cmd == x->cmd), "%s: %s is beside another command", dev->name,
                      name);
    }
}

static void check_commands(const struct device *dev, const struct stream *s, const struct dispatch_plan *p)
{
    for (uint32_t cmd = 0, i = 0; cmd < s->h.n_cmds; cmd++) {
        uint32_t first = i;
        while (i < p->n && p->d[i].cmd == cmd)
            i++;
        ck_assert_msg(i > first || s->cmds[cmd].op == CMD_NOP, "%s: nothing is launched for command %u (%s)",
                      dev->name, cmd, cmd_name(s->cmds[cmd].op));
    }
}

static void check_variants(const struct device *dev, const struct vk_lowering *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        for (uint32_t j = 0; j < i; j++) {
            const struct vk_variant *a = &l->variant[i], *b = &l->variant[j];
            ck_assert_msg(a->kernel != b->kernel || a->shape.n != b->shape.n ||
                              memcmp(a->shape.v, b->shape.v, a->shape.n * sizeof *a->shape.v) != 0,
                          "%s: %s twice", dev->name, vk_kernels[a->kernel].module);
        }
}

/* One stream on one device, as the tier does it: every size of step shares the variants. Returns their number. */
static uint32_t lower_stream(const struct device *dev, const struct stream *s, const uint32_t *rows, uint32_t n)
{
    struct vk_lowering l = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        struct dispatch_plan *p = plan_of(dev, &l, s, rows[i]);
        check_launches(dev, &l, p);
        check_commands(dev, s, p);
        check_waits(dev->name, s, p);
        dispatch_free(p);
    }
    check_variants(dev, &l);
    free(l.variant);
    return l.n;
}

START_TEST(decode_streams_are_lowered_on_every_device)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        for (uint32_t k = 0; k < N_DEVICES; k++) {
            uint32_t n = lower_stream(&devices[k], s, (const uint32_t[]){ 1 }, 1);
            ck_assert_msg(n < DECODE_VARIANTS, "%s, %s: %u pipelines", fake_models[i].name, devices[k].name, n);
            lower_stream(&devices[k], s, (const uint32_t[]){ 1, 2, 8 }, 3);
        }
        stream_free(s);
    }
}
END_TEST

START_TEST(prompt_streams_are_lowered_on_every_device)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_PREFILL);
        for (uint32_t k = 0; k < N_DEVICES; k++)
            lower_stream(&devices[k], s, (const uint32_t[]){ 32 }, 1);
        stream_free(s);
    }
}
END_TEST

/* The same stream again asks for no new pipeline. */
START_TEST(variants_are_found_again)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct vk_lowering l = { 0 };
    dispatch_free(plan_of(&devices[0], &l, s, 8));
    uint32_t n = l.n;
    dispatch_free(plan_of(&devices[0], &l, s, 8));
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_eq(l.n, n);
    free(l.variant);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("vk_lower", decode_streams_are_lowered_on_every_device,
                     prompt_streams_are_lowered_on_every_device, variants_are_found_again);
}
#else
int main(void)
{
    puts("built without the vulkan tier");
    return 77;
}
#endif
