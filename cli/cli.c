#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/nearest.h"
#include "engine/look.h"
#include "pull/name.h"
#include "pull/pull.h"

struct cli_model cli_model = { .device = -1 };
struct cli_sampling cli_sampling = { .p = {
#define X(field, type, def, opt, key, help) .field = def,
                                         SAMPLER_PARAMS(X)
#undef X
                                     } };

const struct opt cli_model_opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the model: a GGUF file, of a split model the first part; or a name that zinc pull takes"),
    OPT_CHECKED(cli_check_tier, "tier", 0, OPT_STR, &cli_model.o.tier, "T",
      cli_tier_help),
    OPT_WORDS("auto|replay|persistent", "plan", 0, OPT_STR, &cli_model.o.plan, "P",
      "kind of plan: replay, persistent; auto measures both once; default: as measured, else replay"),
    OPT("exact", 0, OPT_FLAG, &cli_model.o.exact, NULL, "cpu: dequantise and accumulate in double: slow, the reference for everything else"),
    OPT_WORDS("auto", "ctx", 'c', OPT_U32, &cli_model.o.n_ctx, "N",
      "context in tokens; auto (default): for serve and chat as much as memory allows, up to the model's training length; otherwise "
      "4096 or what the prompt needs"),
    OPT("chunk", 0, OPT_U32, &cli_model.o.chunk, "N", "prompt tokens per step (default: 512, on a GPU 1024 or 2048)"),
    CLI_KV,
    CLI_ROPE,
    OPT_RANGE(0, CLI_MAX_THREADS, "threads", 't', OPT_I32, &cli_model.o.threads, "N", "cpu: worker threads (default: one per core)"),
    OPT_RANGE(0, 255, "device", 0, OPT_I32, &cli_model.device, "N", "which of the tier's devices (default: the best)"),
    OPT("device-name", 0, OPT_STR, &cli_model.o.device_name, "S", "the device whose name contains this"),
    OPT("no-fuse", 0, OPT_FLAG, &cli_model.o.no_fuse, NULL, "do not fuse operations, to find a wrong one"),
    OPT("check-hazards", 0, OPT_FLAG, &cli_model.o.check, NULL, "check for data hazards between commands while they run"),
    OPT("ignore-memory", 0, OPT_FLAG, &cli_model.o.ignore_memory, NULL, "start even if memory seems too small"),
    OPT("quiet", 'q', OPT_FLAG, &cli_model.quiet, NULL, "print only errors on stderr"),
    { 0 },
};

const struct opt cli_sampling_opts[] = {
#define X(field, type, def, opt, key, help)                                                                            \
    { opt,  0,    _Generic((type){ 0 }, float: OPT_F32, int32_t: OPT_I32, uint32_t: OPT_U32), &cli_sampling.p.field,   \
      "N",  help, &cli_sampling.p.set, SAMPLER_##field, 0, 0, NULL, NULL },
    SAMPLER_PARAMS(X)
#undef X
    OPT_WORDS("mt19937|counter", "rng", 0, OPT_STR, &cli_sampling.rng, "R",
      "random generator: mt19937 (default; gives llama.cpp's tokens), or counter, which also runs on the device"),
    OPT("logit-bias", 0, OPT_LIST, &cli_sampling.bias, "ID=B", "add B to the logit of a token; -inf never chooses it"),
    OPT("dry-breaker", 0, OPT_LIST, &cli_sampling.dry_breakers, "S",
      "DRY: this text ends a repetition (default: newline, colon, quote, asterisk)"),
    { 0 },
};

int cli_sampling_params(const struct engine *eng, struct sampler_params *p)
{
    struct str_list *l = &cli_sampling.bias;
    static struct logit_bias *bias;
    free(bias);
    bias = calloc(l->n + 1u, sizeof *bias);
    if (!bias)
        return usage_error("out of memory");
    for (uint32_t i = 0; i < l->n; i++) {
        char *end, *end2;
        long id = strtol(l->s[i], &end, 10);
        float b = *end == '=' ? strtof(end + 1, &end2) : 0;
        if (end == l->s[i] || *end != '=' || end2 == end + 1 || *end2 || isnan(b))
            return usage_error("--logit-bias: '%s' is not ID=NUMBER", l->s[i]);
        bias[i] = (struct logit_bias){ (int32_t)id, b };
    }
    *p = cli_sampling.p;
    p->bias = bias;
    p->n_bias = l->n;
    if (cli_sampling.dry_breakers.n) {
        p->dry_breakers = cli_sampling.dry_breakers.s;
        p->n_dry_breakers = cli_sampling.dry_breakers.n;
    }
    struct err e = { 0 };
    if (cli_sampling.rng && sampler_rng_named(cli_sampling.rng, &p->rng, &e))
        return usage_error("--rng: %s", e.msg);
    engine_sampling_defaults(eng, p);
    return sampler_check(p, &e) ? usage_error("%s", e.msg) : ARGS_RUN;
}

char cli_tier_help[256];

void cli_list_tiers(void)
{
    size_t n = 0;
    const char *name;
    for (size_t i = 0; (name = engine_tier_name(i)) && n < sizeof cli_tier_help; i++)
        n += (size_t)snprintf(cli_tier_help + n, sizeof cli_tier_help - n, "%s%s", i ? ", " : "what runs it: ", name);
    if (n < sizeof cli_tier_help)
        snprintf(cli_tier_help + n, sizeof cli_tier_help - n,
                 " (zinc check tells which of them can run here); words may follow, cpu:exact");
}

static const char *tier_name_at(const void *user, size_t i)
{
    (void)user;
    return engine_tier_name(i);
}

int cli_check_tier(const char *shown, const char *value)
{
    struct err e = { 0 };
    char name[64];
    if (!engine_check_tier(value, &e))
        return ARGS_RUN;
    snprintf(name, sizeof name, "%.*s", (int)MIN(strcspn(value, ":"), sizeof name - 1), value);
    const char *near = strchr(value, ':') ? NULL : nearest_name(name, tier_name_at, NULL);
    return usage_error("%s: %s%s%s%s", shown, e.msg, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int cli_fail(const struct err *e)
{
    fflush(stdout);
    fprintf(stderr, "zinc: %s\n", e->msg[0] ? e->msg : strerror(-e->code));
    return EXIT_FAILED;
}

const char *const cli_model_operand[] = { "MODEL", NULL };

int cli_take_model(int argc, char **argv)
{
    if (argc > 1 && cli_model.o.path)
        return usage_error("unexpected argument '%s': -m named the model already", argv[1]);
    if (argc > 1)
        cli_model.o.path = argv[1];
    return 0;
}

static void say_unless_quiet(const char *line)
{
    if (!cli_model.quiet)
        cli_say("%s", line);
}

int cli_find_model(const char **path)
{
    size_t n = strlen(*path);
    bool like_path = strchr(*path, '/') || (n > 5 && strcmp(*path + n - 5, ".gguf") == 0);
    if (access(*path, F_OK) == 0 || (like_path && !name_has_scheme(*path)))
        return 0; /* who opens it says what is wrong with it */
    struct err e = { 0 };
    struct sigaction before;
    struct progress bar = progress_terminal();
    struct pull_opts o = { .progress = cli_model.quiet ? NULL : &bar, .say = say_unless_quiet };
    struct pull_result r;
    char *found;
    sigaction(SIGINT, NULL, &before);
    o.cancel = cli_catch_interrupt();
    int rc = pull_model(*path, &o, &found, &r, &e);
    sigaction(SIGINT, &before, NULL);
    cli_clear_interrupt();
    if (rc)
        return cli_fail(&e) + (rc == -ECANCELED ? EXIT_INTERRUPTED - EXIT_FAILED : 0);
    static char *kept; /* for as long as the program runs */
    *path = kept = found;
    return 0;
}

int cli_need_model(void)
{
    return cli_model.o.path ? cli_find_model(&cli_model.o.path) : cli_default_model(&cli_model.o.path, !cli_model.quiet);
}

int cli_open_vocab(struct engine **out)
{
    struct err e = { 0 };
    int rc = cli_need_model();
    if (rc)
        return rc;
    if (sampler_check(&cli_sampling.p, &e)) /* before a long load */
        return usage_error("%s", e.msg);
    if (cli_sampling.p.top_p > 1 || cli_sampling.p.typical_p > 1)
        return usage_error("sampling: %s is %g, a probability: 0 to 1 is expected", cli_sampling.p.top_p > 1 ? "top-p" : "typical-p",
                           (double)(cli_sampling.p.top_p > 1 ? cli_sampling.p.top_p : cli_sampling.p.typical_p));
    return engine_open_vocab(cli_model.o.path, out, &e) ? cli_fail(&e) : 0;
}

int cli_start(struct engine *eng)
{
    struct err e = { 0 };
    struct progress bar = progress_terminal();
    cli_model.o.progress = cli_model.quiet ? NULL : &bar;
    cli_model.o.device = cli_model.device;
    cli_model.o.device_set = cli_model.device >= 0;
    int rc = engine_start(eng, &cli_model.o, &e);
    cli_model.o.progress = NULL;
    return rc ? cli_fail(&e) : 0;
}

const char *cli_bytes(uint64_t n, char buf[32])
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double v = (double)n;
    size_t u = 0;
    for (; v >= 1024 && u + 1 < ARRAY_LEN(unit); u++)
        v /= 1024;
    snprintf(buf, 32, u == 0 || v >= 100 ? "%.0f %s" : v >= 10 ? "%.1f %s" : "%.2f %s", v, unit[u]);
    return buf;
}

const char *cli_count(uint64_t n, char buf[32])
{
    static const char *const unit[] = { "", " K", " M", " G", " T" };
    double v = (double)n;
    size_t u = 0;
    for (; v >= 1000 && u + 1 < ARRAY_LEN(unit); u++)
        v /= 1000;
    snprintf(buf, 32, u == 0 || v >= 100 ? "%.0f%s" : "%.1f%s", v, unit[u]);
    return buf;
}

void cli_say(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (isatty(STDERR_FILENO))
        args_print_wrapped(stderr, text, 0, 0);
    else
        fprintf(stderr, "%s\n", text);
}

void cli_print_header(const struct engine *eng)
{
    const struct engine_info *in = engine_info(eng);
    char n[32], w[32], kv[32];
    if (cli_model.quiet)
        return;
    cli_say("%s (%s, %s parameters, %s) on %s%s, %s: weights %s, context %u (%s), loaded in %.1f s", in->label, in->family,
            cli_count(in->n_params, n), in->weights, in->tier, in->exact ? ":exact" : "", in->device,
            cli_bytes(in->weight_bytes, w), in->n_ctx, cli_bytes(in->kv_bytes + in->state_bytes, kv),
            (double)in->load_ns * 1e-9);
    if (in->fit[0] && in->n_ctx < in->n_ctx_train)
        cli_say("%s", in->fit);
    if (in->rope[0])
        cli_say("%s", in->rope);
    if (in->n_ctx_train && in->n_ctx > in->n_ctx_train)
        cli_say("note: the model was trained for a context of %u; text beyond that is likely to be nonsense", in->n_ctx_train);
}

int cli_parse_ids(const char *text, int32_t **ids, uint32_t *n)
{
    size_t cap = 1;
    for (const char *p = text; *p; p++)
        cap += *p == ',' || *p == ' ' || *p == '\n' || *p == '\t';
    int32_t *v = calloc(cap, sizeof *v);
    if (!v)
        return usage_error("out of memory");
    *n = 0;
    for (const char *p = text + strspn(text, " \t\r\n"); *p; p += strspn(p, " \t\r\n")) {
        if (*n && *p == ',')
            p += 1 + strspn(p + 1, " \t\r\n");
        if (*n && !*p) /* one comma may end the list, as scripts write it */
            break;
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p && *p == ',') {
            free(v);
            return usage_error("an id is missing between commas (in '%.40s%s')", text, strlen(text) > 40 ? "..." : "");
        }
        if (end == p || errno || id < 0 || id > INT32_MAX || (*end && !strchr(", \t\r\n", *end))) {
            int rc = usage_error("'%.*s' is not a token id (in '%.40s%s')", (int)MIN(strcspn(p, ", \t\r\n"), (size_t)40),
                                 p, text, strlen(text) > 40 ? "..." : "");
            free(v);
            return rc;
        }
        v[(*n)++] = (int32_t)id;
        p = end;
    }
    *ids = v;
    return 0;
}

int cli_read_file(const char *path, char **text, size_t *n, struct err *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    size_t cap = 65536, len = 0;
    char *buf = malloc(cap);
    while (buf && !ferror(f) && !feof(f)) {
        len += fread(buf + len, 1, cap - 1 - len, f);
        if (cap - 1 - len == 0) {
            char *more = realloc(buf, cap *= 2);
            if (!more)
                free(buf);
            buf = more;
        }
    }
    int rc = !buf ? err_set(e, -ENOMEM, "%s: out of memory", path)
             : ferror(f) ? err_set(e, -EIO, "%s: cannot be read: %s", path, strerror(errno)) : 0;
    if (f != stdin)
        fclose(f);
    if (rc) {
        free(buf);
        return rc;
    }
    buf[len] = 0;
    *text = buf;
    *n = len;
    return 0;
}

static struct flag interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    if (flag_is_set(&interrupted))
        _exit(EXIT_INTERRUPTED);
    flag_set(&interrupted, true);
}

const struct flag *cli_catch_interrupt(void)
{
    struct sigaction sa = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &sa, NULL); /* no SA_RESTART: a waiting read returns */
    return &interrupted;
}

void cli_clear_interrupt(void)
{
    flag_set(&interrupted, false);
}

bool cli_colour(FILE *f)
{
    const char *no = getenv("NO_COLOR");
    return isatty(fileno(f)) && !(no && *no);
}

int cli_put(FILE *f, const char *s, size_t n)
{
    errno = 0;
    if (fwrite(s, 1, n, f) != n || fflush(f))
        return errno ? -errno : -EIO;
    return 0;
}

void cli_json_string(FILE *f, const char *s, size_t n)
{
    fputc('"', f);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", f);
        else if (c == '\t')
            fputs("\\t", f);
        else if (c < 0x20 || c == 0x7f)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}
