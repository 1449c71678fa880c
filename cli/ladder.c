/* zinc ladder: brings a tier up, rung by rung. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "cli/cli.h"
#include "engine/look.h"
#include "engine/proof/ladder.h"

enum { EXIT_RUNG = 10 }; /* + the number of the rung that failed */

static struct {
    const char *tier, *model, *filter, *report, *from, *to, *skip;
    uint32_t first, last, tokens;
    uint64_t skipped; /* bit N - 1: rung N */
    int32_t device;
    bool json, list;
} args = { .tier = "kfd", .device = -1, .tokens = 64 };

static const struct opt opts[] = {
    OPT_CHECKED(cli_check_tier, "tier", 0, OPT_STR, &args.tier, "T", "the tier to test: kfd (default), umq or cs from their first packet; any other from its kernels on"),
    OPT_RANGE(0, 255, "device", 0, OPT_I32, &args.device, "N", "which of its devices (default: the best)"),
    OPT("model", 'm', OPT_STR, &args.model, "FILE", "model for the last rungs (default: the demo model, models/zinc-demo.gguf or where make install put it)"),
    OPT("n", 'n', OPT_U32, &args.tokens, "N", "tokens in the last rung (default: 64)"),
    OPT("filter", 0, OPT_STR, &args.filter, "PART", "only the kernel cases with this in their name"),
    OPT("from", 0, OPT_STR, &args.from, "RUNG", "start at this rung, by its number or its name; the tier's own first rungs always run"),
    OPT("to", 0, OPT_STR, &args.to, "RUNG", "stop after this rung"),
    OPT("skip", 0, OPT_STR, &args.skip, "RUNGS", "pass over these, with commas between them: one that fails need not end the ladder"),
    OPT("report", 0, OPT_STR, &args.report, "FILE", "write everything a maintainer would ask for into one file"),
    OPT("list", 0, OPT_FLAG, &args.list, NULL, "list the rungs and exit"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "one JSON object instead of the lines"),
    { 0 },
};

struct show {
    bool colour, bar;  /* bar: there is a line of progress on the terminal */
    FILE *report;
    json_t *lines;
};

static void clear_bar(struct show *s)
{
    if (s->bar)
        fputs("\r\033[K", stderr);
    s->bar = false;
}

static void print_line(FILE *f, const struct ladder_line *l, bool colour)
{
    static const char *const word[] = { "ok", "FAILED", "skipped" };
    static const char *const paint[] = { "\033[32m", "\033[31m", "\033[33m" };
    fprintf(f, "%3u  %-18s %s%-7s%s %10.1f ms  %s\n", l->number, l->name, colour ? paint[l->status] : "", word[l->status],
            colour ? "\033[0m" : "", l->ms, l->status == LADDER_OK ? l->proves : "");
    if (l->found && l->found[0])
        fprintf(f, "     %s%s\n", l->status == LADDER_FAILED ? "came: " : "", l->found);
    if (l->status == LADDER_FAILED)
        fprintf(f, "     it was to prove: %s\n     look at: %s\n", l->proves, l->look);
    fflush(f);
}

static void show_line(void *user, const struct ladder_line *l)
{
    static const char *const word[] = { "ok", "failed", "skipped" };
    struct show *s = user;
    clear_bar(s);
    if (s->report)
        print_line(s->report, l, false);
    if (!s->lines) {
        print_line(stdout, l, s->colour);
        return;
    }
    json_array_append_new(s->lines, json_pack("{s:i, s:s, s:s, s:s, s:f, s:s, s:s?}", "rung", (int)l->number, "name",
                                              l->name, "proves", l->proves, "status", word[l->status], "ms", l->ms,
                                              "found", l->found ? l->found : "", "look",
                                              l->status == LADDER_FAILED ? l->look : NULL));
}

static void show_progress(void *user, const char *what, uint32_t done, uint32_t total)
{
    struct show *s = user;
    if (!isatty(STDERR_FILENO))
        return;
    clear_bar(s);
    if (what) {
        fprintf(stderr, "     case %u of %u: %.60s", done + 1, total, what);
        fflush(stderr);
        s->bar = true;
    }
}

static void list_line(void *user, const struct ladder_line *l)
{
    (void)user;
    printf("%3u  %-18s %s\n", l->number, l->name, l->proves);
}

static const char *default_model(void)
{
    static const char demo[] = "models/zinc-demo.gguf";
    static char installed[PATH_MAX + 40];
    if (access(demo, R_OK) == 0)
        return demo;
#ifdef __APPLE__
    ssize_t n = macos_program(installed, PATH_MAX);
#else
    ssize_t n = readlink("/proc/self/exe", installed, PATH_MAX); /* PREFIX/bin/zinc, PREFIX/share/zinc/zinc-demo.gguf */
#endif
    if (n < 0)
        return NULL;
    installed[n] = 0;
    *strrchr(installed, '/') = 0;
    strcat(installed, "/../share/zinc/zinc-demo.gguf");
    return access(installed, R_OK) == 0 ? installed : NULL;
}

static void report_tier(void *user, const struct tier_look *t)
{
    fprintf(user, "tier %-8s %-4s %s: %s\n", t->name, t->works ? "yes" : "no", t->device, t->note);
}

/* Where and what: the first lines of a report. */
static FILE *open_report(const char *path)
{
    FILE *f = path ? fopen(path, "w") : NULL;
    struct utsname u;
    struct host_look h;
    char day[64] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (!f)
        return NULL;
    if (gmtime_r(&now, &tm))
        strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &tm);
    engine_host(&h);
    fprintf(f, "zinc %s ladder --tier=%s, %s\n", ZINC_VERSION, args.tier, day);
    if (uname(&u) == 0)
        fprintf(f, "system %s %s %s %s\n", u.sysname, u.release, u.version, u.machine);
    fprintf(f, "host %s, %u cores, %s, %llu MiB of memory\n", h.cpu, h.n_cores, h.isa,
            (unsigned long long)(h.mem_bytes >> 20));
    engine_tiers(report_tier, f);
    fputc('\n', f);
    return f;
}

static int close_report(FILE *f, const char *path)
{
    struct err e;
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) {
        err_set(&e, -EIO, "%s: the report could not be written: %s (is the disk full?)", path, strerror(errno));
        return cli_fail(&e);
    }
    fprintf(stderr, "report: %s\n", path);
    return EXIT_OK;
}

static void print_end(const struct ladder_result *r, const struct show *s)
{
    FILE *out[2] = { s->lines ? NULL : stdout, s->report };
    for (int i = 0; i < 2; i++)
        if (out[i])
            fprintf(out[i], r->failed ? "rung %u of %u failed: the ones below it hold\n"
                                      : "%u of %u rungs hold, %u skipped\n",
                    r->failed ? r->failed : r->ok, r->n, r->skipped);
    if (!s->lines)
        return;
    json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:O}", "tier", args.tier, "version", ZINC_VERSION, "rungs",
                          (int)r->n, "ok", (int)r->ok, "skipped", (int)r->skipped, "failed", (int)r->failed, "lines",
                          s->lines);
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

/* A rung that is looked for by its name, and how many rungs there are. */
struct named {
    const char *name;
    uint32_t n, number; /* number: 0 until it is found */
};

static void find_line(void *user, const struct ladder_line *l)
{
    struct named *x = user;
    x->n++;
    if (x->name && strcasecmp(l->name, x->name) == 0)
        x->number = l->number;
}

/* 0 or an exit status. */
static int which_rung(const char *option, const char *text, uint32_t *out)
{
    struct err e = { 0 };
    struct named x = { .name = text };
    char *end = NULL;
    if (ladder_list(args.tier, find_line, &x, &e))
        return usage_error("%s", e.msg);
    if (!text || x.number) {
        *out = x.number;
        return 0;
    }
    unsigned long n = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (!end || *end)
        return usage_error("--%s '%s': the ladder of %s has no rung of this name (--list shows them)", option, text, args.tier);
    if (!n || n > x.n)
        return usage_error("--%s %s: the ladder of %s has %u rungs, the first is 1", option, text, args.tier, x.n);
    *out = (uint32_t)n;
    return 0;
}

static int which_to_skip(void)
{
    char one[64];
    for (const char *p = args.skip; p && *p;) {
        size_t n = strcspn(p, ",");
        uint32_t number = 0;
        snprintf(one, sizeof one, "%.*s", (int)MIN(n, sizeof one - 1), p);
        int bad = which_rung("skip", one, &number);
        if (bad)
            return bad;
        args.skipped |= 1ull << (number - 1);
        p += n + (p[n] == ',');
    }
    return 0;
}

static int check_range(void)
{
    int bad = which_rung("from", args.from, &args.first);
    if (bad || (bad = which_rung("to", args.to, &args.last)) || (bad = which_to_skip()))
        return bad;
    if (args.last && args.first > args.last)
        return usage_error("--from %u --to %u: no rung is left", args.first, args.last);
    return 0;
}

static int ladder_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    struct err e = { 0 };
    struct show s = { .colour = cli_colour(stdout) };
    struct ladder_result r;
    int bad = check_range();
    if (bad)
        return bad;
    if (args.list)
        return ladder_list(args.tier, list_line, NULL, &e) ? cli_fail(&e) : EXIT_OK;
    if (args.report && !(s.report = open_report(args.report))) {
        err_set(&e, -errno, "%s: %s", args.report, strerror(errno));
        return cli_fail(&e);
    }
    s.lines = args.json ? json_array() : NULL;
    struct ladder_opts o = { .tier = args.tier, .device = args.device, .model = args.model ? args.model : default_model(),
                             .filter = args.filter, .first = args.first, .last = args.last, .skip = args.skipped, .n_tokens = args.tokens,
                             .detail = s.report, .cancel = cli_catch_interrupt(), .line = show_line,
                             .progress = show_progress, .user = &s };
    int rc = ladder_climb(&o, &r, &e);
    clear_bar(&s);
    if (!rc)
        print_end(&r, &s);
    json_decref(s.lines);
    int report_rc = s.report ? close_report(s.report, args.report) : EXIT_OK;
    if (rc)
        return rc == -ECANCELED ? (cli_fail(&e), EXIT_INTERRUPTED) : cli_fail(&e);
    return r.failed ? EXIT_RUNG + (int)r.failed : report_rc;
}

static const struct opt_group groups[] = { { "options", opts }, { 0 } };

const struct command cmd_ladder = {
    .name = "ladder",
    .summary = "brings up a GPU rung by rung, and says where it fails",
    .usage = "[--tier kfd|umq|cs|...] [-m MODEL.gguf] [--report FILE]",
    .about =
        "Each rung proves one thing that the next one needs: the device opens, memory is mapped, a queue runs a\n"
        "packet, a kernel runs, every kernel agrees with the cpu tier, then a layer, then tokens. The first\n"
        "rung that fails ends it, with what was expected, what came instead, and where to look on a real\n"
        "machine. The exit status is 0 when all rungs hold, 10 + N when rung N failed, and 1 when it could not\n"
        "be tried.\n"
        "\n"
        "  zinc ladder --tier=kfd\n"
        "  zinc ladder --tier=kfd --report ladder.txt    # one file to send\n"
        "  zinc ladder --tier=cs --to \"memory filled\"    # without the kernels, quick\n"
        "  zinc ladder --filter attn --to \"every kernel\"    # of them, attention's",
    .groups = groups,
    .main = ladder_main,
};
