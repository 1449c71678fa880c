/* loadgen: many clients of an OpenAI-compatible server at once, some of them bad: does each get what it should? */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tools/loadgen/load.h"

static const char usage[] =
    "usage: loadgen [OPTION]... URL\n"
    "Sends requests to the chat and completion endpoints of a server over many connections, and reports what "
    "became of\n"
    "them and how long it took. Requests share prefixes, stream or not, are greedy or drawn with a seed; all "
    "follows from\n"
    "--seed. Clients may be slow, go away at any point, or send nonsense.\n"
    "\n"
    "  -n, --requests N   requests (200)\n"
    "  -c, --connections N  at once (16)\n"
    "  --seconds S        go on for so long, whatever -n says\n"
    "  --seed N           other requests (1)\n"
    "  --distinct N       different requests among them (100)\n"
    "  --tokens N         tokens of an answer at most (32)\n"
    "  --prefix-words N   words of the longest prefix that requests share (150)\n"
    "  --plain P          per cent that do not stream (25)\n"
    "  --forms P          per cent that must have a form (JSON, schema, grammar, calls of tools) or are about tokens (0)\n"
    "  --no-tools         none of these offers tools, for models whose chat format has none\n"
    "  --slow P           per cent that read slowly, with pauses and a small buffer (0)\n"
    "  --drop P           per cent that go away in the body, waiting or in the stream, in three ways (0)\n"
    "  --bad P            per cent with a body or path that must be answered 4xx (0)\n"
    "  --retry            what is refused with 429 is sent again after its Retry-After\n"
    "  --timeout S        no byte on any connection for so long is a hang (120)\n"
    "  --key KEY[,KEY]... API keys; each request takes one of them\n"
    "\n"
    "  --solo FILE        send each distinct request alone and write the answers to FILE\n"
    "  --verify FILE      compare with them: whole answers must be equal, of those cut off what came\n"
    "  --fuzz N           N malformed requests: answered 4xx or closed, never 5xx, never a hang\n"
    "  --only I           the I-th of these alone, shown on stdout\n"
    "  --watch PID        report the resident memory of this process\n"
    "  --json             the report as JSON\n"
    "  -h, --help         this text\n"
    "\n"
    "  zinc serve -m model.gguf --port 8080 --slots 1 --cache-mib 0 &\n"
    "  loadgen --solo expected.json http://127.0.0.1:8080\n"
    "  (the same server with --slots 8)\n"
    "  loadgen -n 2000 -c 64 --drop 10 --slow 5 --bad 5 --verify expected.json http://127.0.0.1:8080\n"
    "  loadgen --fuzz 10000 -c 32 http://127.0.0.1:8080\n"
    "\n"
    "Exit status: 0; 1 when an answer was different, broken, unexpected, late or 5xx; 2: wrong usage, or no server.\n";

enum {
    OPT_FIRST = 256, OPT_SECONDS, OPT_SEED, OPT_DISTINCT, OPT_TOKENS, OPT_PREFIX, OPT_PLAIN, OPT_FORMS, OPT_NO_TOOLS, OPT_SLOW,
    OPT_DROP, OPT_BAD, OPT_RETRY, OPT_TIMEOUT, OPT_KEY, OPT_SOLO, OPT_VERIFY, OPT_FUZZ, OPT_ONLY, OPT_WATCH,
    OPT_JSON,
};

static const struct option options[] = {
    { "requests", required_argument, NULL, 'n' },
    { "connections", required_argument, NULL, 'c' },
    { "seconds", required_argument, NULL, OPT_SECONDS },
    { "seed", required_argument, NULL, OPT_SEED },
    { "distinct", required_argument, NULL, OPT_DISTINCT },
    { "tokens", required_argument, NULL, OPT_TOKENS },
    { "prefix-words", required_argument, NULL, OPT_PREFIX },
    { "plain", required_argument, NULL, OPT_PLAIN },
    { "forms", required_argument, NULL, OPT_FORMS },
    { "no-tools", no_argument, NULL, OPT_NO_TOOLS },
    { "slow", required_argument, NULL, OPT_SLOW },
    { "drop", required_argument, NULL, OPT_DROP },
    { "bad", required_argument, NULL, OPT_BAD },
    { "retry", no_argument, NULL, OPT_RETRY },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "key", required_argument, NULL, OPT_KEY },
    { "solo", required_argument, NULL, OPT_SOLO },
    { "verify", required_argument, NULL, OPT_VERIFY },
    { "fuzz", required_argument, NULL, OPT_FUZZ },
    { "only", required_argument, NULL, OPT_ONLY },
    { "watch", required_argument, NULL, OPT_WATCH },
    { "json", no_argument, NULL, OPT_JSON },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "loadgen: %s%s%s (loadgen --help)\n", what, value ? ": " : "", value ? value : "");
    return 2;
}

static bool number(const char *s, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long v = strtoul(s, &end, 10);
    if (end == s || *end || errno || *s == '-' || v < least || v > most)
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool read_option(struct load_opts *o, int c, const char *v)
{
    uint32_t n = 0;
    bool ok = true;
    switch (c) {
    case 'n': return number(v, 1, UINT32_MAX, &o->n);
    case 'c': return number(v, 1, 10000, &o->connections);
    case OPT_SECONDS: return number(v, 1, 1000000, &o->seconds);
    case OPT_DISTINCT: return number(v, 1, 1000000, &o->distinct);
    case OPT_TOKENS: return number(v, 1, 1000000, &o->tokens);
    case OPT_PREFIX: return number(v, 0, 1000000, &o->prefix_words);
    case OPT_PLAIN: return number(v, 0, 100, &o->plain);
    case OPT_FORMS: return number(v, 0, 100, &o->forms);
    case OPT_NO_TOOLS: o->no_tools = true; break;
    case OPT_SLOW: return number(v, 0, 100, &o->slow);
    case OPT_DROP: return number(v, 0, 100, &o->drop);
    case OPT_BAD: return number(v, 0, 100, &o->bad);
    case OPT_TIMEOUT: return number(v, 1, 100000, &o->timeout_s);
    case OPT_FUZZ: return number(v, 1, UINT32_MAX, &o->fuzz);
    case OPT_SEED: ok = number(v, 0, UINT32_MAX, &n); o->seed = n; return ok;
    case OPT_ONLY: ok = number(v, 0, UINT32_MAX, &n); o->only = n; return ok;
    case OPT_WATCH: ok = number(v, 1, INT32_MAX, &n); o->watch_pid = (int)n; return ok;
    case OPT_RETRY: o->retry = true; break;
    case OPT_JSON: o->json = true; break;
    case OPT_KEY: o->key = v; break;
    case OPT_SOLO: o->solo = v; break;
    case OPT_VERIFY: o->verify = v; break;
    default: return false;
    }
    return true;
}

/* http://HOST[:PORT][/...], HOST in [] for IPv6 */
static bool read_url(struct load_opts *o)
{
    const char *p = o->url;
    if (strncmp(p, "http://", 7) == 0)
        p += 7;
    size_t n = strcspn(p, "/"), host = *p == '[' ? strcspn(p, "]") + 1 : strcspn(p, ":/"), cut = *p == '[';
    if (strstr(o->url, "://") > o->url + 4 || host == 0 || host > n || host >= sizeof o->host ||
        n - host >= sizeof o->port)
        return false;
    snprintf(o->host, sizeof o->host, "%.*s", (int)(host - 2 * cut), p + cut);
    snprintf(o->port, sizeof o->port, "%.*s", (int)(p[host] == ':' ? n - host - 1 : 2),
             p[host] == ':' ? p + host + 1 : "80");
    return true;
}

static int work(const struct load_opts *o, struct report *r, struct err *e)
{
    struct expect *x = NULL;
    int rc;
    if (o->fuzz || o->only >= 0)
        return drive_fuzz(o, r, e);
    if (o->solo) {
        rc = expect_create(o, &x, e);
        rc = rc ? rc : drive_solo(o, x, r, e);
        rc = rc ? rc : expect_save(x, o->solo, e);
    } else {
        rc = o->verify ? expect_load(o->verify, o, &x, e) : 0;
        rc = rc ? rc : drive_load(o, x, r, e);
    }
    expect_free(x);
    return rc;
}

int main(int argc, char **argv)
{
    static struct report report;
    struct load_opts o = { .n = 200, .connections = 16, .seed = 1, .distinct = 100, .tokens = 32, .prefix_words = 150,
                           .plain = 25, .timeout_s = 120, .only = -1 };
    struct err e = { 0 };
    int c;
    while ((c = getopt_long(argc, argv, "n:c:h", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (c == '?')
            return wrong_usage("see the options", NULL);
        if (!read_option(&o, c, optarg))
            return wrong_usage("not a value that fits", argv[optind - 1]);
    }
    if (optind + 1 != argc)
        return wrong_usage("one URL is expected", NULL);
    o.url = argv[optind];
    if (!read_url(&o))
        return wrong_usage("not http://HOST:PORT", o.url);
    if (o.bad + o.drop + o.slow > 100)
        return wrong_usage("--bad, --drop and --slow are more than 100 together", NULL);
    if (work(&o, &report, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        return 2;
    }
    report_print(&report, &o);
    return report_is_bad(&report) ? 1 : 0;
}
