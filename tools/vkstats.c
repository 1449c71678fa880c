/* vkstats: what a Vulkan driver makes of the kernels: registers, spills, shared memory, bytes of code. It only compiles, so a
 * driver that plays a GPU which is not there will do (RADV_FORCE_FAMILY=gfx1201). */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/stdout.h"
#include "engine/proof/op_cases.h"
#include "vk/stats.h"

static const char usage[] =
    "usage: vkstats [OPTION]... [FILE.zstream]...\n"
    "Compiles the Vulkan kernels that the streams need, or, without a stream, all that the op table needs, and prints\n"
    "what the driver tells of each: a line for each kernel and set of constants. Nothing runs.\n"
    "\n"
    "  --device N|PART   which device, by number or a part of its name (the best)\n"
    "  --cores N         compute units, as launches are cut for them (what the device says, or 64)\n"
    "  --cases PART      of the op table, only cases with this in their name\n"
    "  --filter PART     print only kernels with this in their line\n"
    "  --sort COLUMN     by this column, falling: vgprs, spills, scratch, shared, waves, instrs, code\n"
    "  --describe        the device and its memory and matrix units too, and everything under the driver's own names\n"
    "  --json            the table with everything, as JSON\n"
    "  -h, --help        this text\n"
    "\n"
    "  zinc graph -m model.gguf --save decode.zstream          steps of up to 8 rows\n"
    "  zinc graph -m model.gguf --rows 512 --save prompt.zstream\n"
    "  vkstats decode.zstream prompt.zstream\n"
    "\n"
    "Exit status: 0, 1 where the driver rejects a kernel or something spills (a dash: the driver does not say), 2 for\n"
    "wrong usage.\n";

struct line {
    struct vk_variant variant;
    char name[160];
    VkResult rc;
    bool told[VK_STAT_COUNT];
    double stat[VK_STAT_COUNT];
    json_t *all;
};

static enum vk_stat sort_by = VK_STAT_COUNT;

static void add_stat(void *user, const char *name, double value)
{
    struct line *l = user;
    enum vk_stat s = vk_stat_of(name);
    json_object_set_new(l->all, name, json_real(value));
    if (s < VK_STAT_COUNT) {
        l->stat[s] = (l->told[s] ? l->stat[s] : 0) + value;
        l->told[s] = true;
    }
}

static int by_column(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    double p = sort_by < VK_STAT_COUNT ? x->stat[sort_by] : 0, q = sort_by < VK_STAT_COUNT ? y->stat[sort_by] : 0;
    if (p != q)
        return p < q ? 1 : -1;
    if (x->variant.kernel != y->variant.kernel)
        return x->variant.kernel < y->variant.kernel ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* ---- what to compile: lowering makes variants of kernels ---- */

/* The passes that a plan of this stream has (vk/plan.c). */
static int add_stream(struct vk *v, const struct stream *s, struct err *e)
{
    const uint32_t rows[2] = { s->h.row_cap, 1 };
    uint32_t n = s->h.row_cap > 1 && s->h.row_cap <= KL_DECODE_ROWS ? 2 : 1;
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct dispatch_plan *p = NULL;
        rc = dispatch_build(s, &v->r.target, rows[i], 0, &p, e);
        dispatch_free(p);
    }
    return rc;
}

static int add_file(struct vk *v, const char *path, struct err *e)
{
    struct stream *s = NULL;
    int rc = stream_load(path, &s, e);
    if (!rc)
        rc = add_stream(v, s, e);
    stream_free(s);
    return rc;
}

/* Cases that cannot be lowered are told and left out. */
static int add_op_table(struct vk *v, const char *part)
{
    for (const struct op_case *c = op_cases; c->name; c++) {
        if (part && !strstr(c->name, part))
            continue;
        struct ops *o = c->make(c);
        struct err e = { 0 };
        int rc = ops_finish(o, &e);
        if (!rc)
            rc = add_stream(v, ops_stream(o), &e);
        ops_free(o);
        if (rc)
            fprintf(stderr, "vkstats: %s: %s\n", c->name, e.msg);
    }
    return 0;
}

/* ---- telling ---- */

static void print_table(const struct vk *v, const struct line *l, uint32_t n)
{
    bool any[VK_STAT_COUNT] = { false };
    for (uint32_t i = 0; i < n; i++)
        for (int s = 0; s < VK_STAT_COUNT; s++)
            any[s] |= l[i].told[s];
    printf("%s, %s, subgroups of %u, work-groups of up to %u\n", v->info.name, v->info.driver, v->info.caps.wave,
           v->info.caps.threads);
    for (int s = 0; s < VK_STAT_COUNT; s++)
        if (any[s])
            printf("%8s", vk_stat_names[s]);
    printf("  kernel, constants\n");
    for (uint32_t i = 0; i < n; i++) {
        for (int s = 0; s < VK_STAT_COUNT; s++)
            if (any[s] && l[i].told[s])
                printf("%8.0f", l[i].stat[s]);
            else if (any[s])
                printf("%8s", "-");
        printf("  %s%s%s\n", l[i].name, l[i].rc ? ": rejected: " : "", l[i].rc ? vk_error(l[i].rc) : "");
    }
}

static void print_json(const struct vk *v, const struct line *l, uint32_t n)
{
    json_t *kernels = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_t *constants = json_array();
        const struct vk_shape *s = &l[i].variant.shape;
        for (uint32_t k = 2; k < s->n; k++)
            json_array_append_new(constants, json_integer(s->v[k]));
        json_array_append_new(kernels, json_pack("{s:s, s:i, s:i, s:o, s:s?, s:O}", "kernel",
                                                 vk_kernels[l[i].variant.kernel].module, "threads", (int)s->v[0], "wave",
                                                 (int)s->v[1], "constants", constants, "rejected",
                                                 l[i].rc ? vk_error(l[i].rc) : NULL, "statistics", l[i].all));
    }
    json_t *o = json_pack("{s:s, s:s, s:i, s:o}", "device", v->info.name, "driver", v->info.driver, "wave",
                          (int)v->info.caps.wave, "kernels", kernels);
    if (o)
        json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

/* The lines, and how many of them speak against the driver or the kernel. */
static int print(struct vk *v, const char *filter, bool json)
{
    struct line *l = calloc(v->n_pipelines + 1, sizeof *l);
    uint32_t n = 0, mute = 0, bad = 0, spilling = 0;
    for (uint32_t i = 0; l && i < v->n_pipelines; i++) {
        struct line *x = &l[n];
        *x = (struct line){ .variant = v->low.variant[i], .rc = v->pipeline[i].rc };
        vk_variant_name(&x->variant, x->name, sizeof x->name);
        if (filter && !strstr(x->name, filter))
            continue;
        x->all = json_object();
        mute += !x->rc && vk_stats_each(v, i, add_stat, x) != 0;
        bad += x->rc != 0;
        spilling += x->stat[VK_STAT_SPILLS] > 0 || x->stat[VK_STAT_SCRATCH] > 0;
        n++;
    }
    if (!l)
        return 1;
    qsort(l, n, sizeof *l, by_column);
    (json ? print_json : print_table)(v, l, n);
    if (!json)
        printf("%u kernels, %u rejected, %u with registers in memory%s\n", n, bad, spilling,
               mute ? "; this driver tells nothing of them" : "");
    for (uint32_t i = 0; i < n; i++)
        json_decref(l[i].all);
    free(l);
    return bad || spilling;
}

static void print_line(void *user, const char *part, const char *name, const char *value)
{
    char *before = user;
    if (strcmp(before, part) != 0)
        printf("%s\n", part);
    snprintf(before, sizeof ((struct line *)0)->name, "%s", part);
    printf("    %-32s %s\n", name, value);
}

/* ---- the device, without the tier: nothing is allocated or run ---- */

static int open_device(struct vk *v, const struct tier_opts *o, uint32_t cores, struct err *e)
{
    char note[256] = "";
    int rc = vk_instance_get(v, note, sizeof note);
    if (!rc)
        rc = vk_pick(v, o, note, sizeof note);
    if (rc)
        return err_set(e, rc, "%s", note);
    if ((rc = vk_device_create(v, e)))
        return rc;
    if (cores || !v->info.caps.cores) /* played devices may have none */
        v->info.caps.cores = cores ? cores : 64;
    v->low.caps = v->info.caps;
    v->r.target = (struct dispatch_target){ .n_cores = v->info.caps.cores, .shared_max = v->info.caps.shared_max,
                                            .shared_core = v->info.caps.shared_max, .kernels = vk_kernels,
                                            .lower = vk_lower, .user = &v->low };
    return 0;
}

static int run_program(int argc, char **argv)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' }, { "filter", required_argument, NULL, 'f' },
        { "sort", required_argument, NULL, 's' },   { "cases", required_argument, NULL, 'c' },
        { "cores", required_argument, NULL, 'n' },  { "describe", no_argument, NULL, 'D' },
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };
    static struct vk v;
    struct tier_opts o = { .device = -1 };
    struct err e = { 0 };
    const char *filter = NULL, *cases = NULL;
    char part[sizeof ((struct line *)0)->name] = "";
    uint32_t cores = 0;
    bool json = false, describe = false;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        switch (c) {
        case 'h': fputs(usage, stdout); return 0;
        case 'n': cores = (uint32_t)MIN(strtoul(optarg, NULL, 10), 4096u); break;
        case 'j': json = true; break;
        case 'D': describe = true; break;
        case 'f': filter = optarg; break;
        case 'c': cases = optarg; break;
        case 'd':
            if (*optarg >= '0' && *optarg <= '9')
                o.device = atoi(optarg);
            else
                o.device_name = optarg;
            break;
        case 's':
            for (sort_by = 0; sort_by < VK_STAT_COUNT && strcmp(optarg, vk_stat_names[sort_by]) != 0; sort_by++) {
            }
            if (sort_by < VK_STAT_COUNT)
                break;
            /* fall through */
        default: fputs(usage, stderr); return 2;
        }
    int rc = open_device(&v, &o, cores, &e);
    for (int i = optind; i < argc && !rc; i++)
        rc = add_file(&v, argv[i], &e);
    if (!rc && optind == argc)
        rc = add_op_table(&v, cases);
    if (!rc) {
        vk_pipelines_build(&v, &e); /* what is rejected is told line by line */
        if (describe)
            vk_describe(&v.r.tier, print_line, part);
        rc = print(&v, filter, json);
    } else {
        fprintf(stderr, "vkstats: %s\n", e.msg);
        rc = 1;
    }
    vk_pipelines_destroy(&v);
    vk_device_destroy(&v);
    return rc;
}

int main(int argc, char **argv)
{
    return stdout_finish("vkstats", run_program(argc, argv));
}
