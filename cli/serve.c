/* zinc serve: a model for others, over HTTP. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "engine/look.h"
#include "server/server.h"

enum { MOST_SLOTS = 256, DEFAULT_DRAIN_S = 30, DEFAULT_CACHE_MIB = 1024, DEFAULT_DISK_MIB = 16384 };

static struct {
    const char *models, *host, *key_file, *cors, *tls_cert, *tls_key, *name, *ready_file, *pooling, *cache_dir;
    int32_t port, think_budget, cache_mib, cache_disk_mib;
    uint32_t max_loaded, max_loaded_mib, unload_after_s, slots, queue, max_body_mib, memory_mib, timeout_s, idle_s, drain_s, max_tokens, threads, connections, n_draft;
    int think;
    bool behind_router, no_page, no_metrics, reuse_generated, share_cache, strict_model;
    struct str_list keys, hosts, aliases;
} args = { .port = 8080, .think = -1, .think_budget = -1, .cache_mib = -1, .cache_disk_mib = -1,
           .drain_s = DEFAULT_DRAIN_S };

static const struct opt server_opts[] = {
    OPT("host", 0, OPT_STR, &args.host, "ADDR",
      "listen on this address, name or unix:PATH; 0.0.0.0 or :: for all interfaces (default: 127.0.0.1)"),
    OPT("port", 'p', OPT_I32, &args.port, "N", "listen on this port; 0: any free one (default: 8080)"),
    OPT("api-key", 0, OPT_LIST, &args.keys, "KEY",
      "require this key (Authorization: Bearer KEY); may be given more than once. Other users can see it in the process "
      "list: prefer --api-key-file"),
    OPT("api-key-file", 0, OPT_STR, &args.key_file, "FILE", "file of keys, one per line; # begins a comment"),
    OPT("cors", 0, OPT_STR, &args.cors, "ORIGIN", "let web pages of this origin call the API; *: any origin"),
    OPT("allow-host", 0, OPT_LIST, &args.hosts, "NAME",
      "also accept this name in the Host header, as behind a proxy; may be given more than once. Without keys only local "
      "names and addresses are accepted"),
    OPT("tls-cert", 0, OPT_STR, &args.tls_cert, "FILE", "serve HTTPS with this certificate (PEM, with its chain)"),
    OPT("tls-key", 0, OPT_STR, &args.tls_key, "FILE", "and its key (PEM)"),
    OPT("no-page", 0, OPT_FLAG, &args.no_page, NULL, "no chat page at /"),
    OPT("no-metrics", 0, OPT_FLAG, &args.no_metrics, NULL, "no /metrics"),
    OPT("ready-file", 0, OPT_STR, &args.ready_file, "FILE", "write the URL to this file when the server is ready"),
    OPT("behind-router", 0, OPT_FLAG, &args.behind_router, NULL,
      "clients are who the header X-Zinc-From says: what --models starts its models with, and only for a socket that nobody else reaches"),
    { 0 },
};

static const struct opt several_opts[] = {
    OPT("models", 0, OPT_STR, &args.models, "DIR|FILE.toml|pulled",
      "serve several models, each loaded when a request's \"model\" asks for it: the .gguf files of a folder, a list with options for "
      "each (doc/server.md), or what zinc pull has brought here"),
    OPT_RANGE(1, SERVE_MOST_MODELS, "max-loaded", 0, OPT_U32, &args.max_loaded, "N",
      "models that are loaded at the same time, as far as there is memory; the one that has been idle longest makes room (default: all, where "
      "each has a --ctx; else 1, and those that are pinned, so that each chooses its context by all of the memory)"),
    OPT("max-loaded-mib", 0, OPT_U32, &args.max_loaded_mib, "N",
      "memory that loaded models may take together, weights, contexts and all (default: what there is)"),
    OPT("unload-after", 0, OPT_U32, &args.unload_after_s, "S", "unload a model that nobody asked for in so many seconds; 0: never (default)"),
    { 0 },
};

static const struct opt request_opts[] = {
    { "slots", 0, OPT_U32, &args.slots, "N",
      "requests that run at the same time, each with a context of --ctx; auto (default): 4, on a GPU 8 (16 for embeddings, with "
      "--batch-variant up to 64), or fewer when memory is short", NULL, 0, 1, MOST_SLOTS, "auto", NULL },
    CLI_BATCH_VARIANT,
    CLI_DRAFT(&args.n_draft),
    OPT("queue", 0, OPT_U32, &args.queue, "N", "requests that may wait; beyond that the answer is 429 (default: 1024, or 4 per slot)"),
    OPT("cache-mib", 0, OPT_I32, &args.cache_mib, "N",
      "host memory for prefixes of earlier prompts (default: 1024, at most an eighth of the machine's memory)"),
    OPT("cache-dir", 0, OPT_STR, &args.cache_dir, "DIR",
      "keep prompt prefixes in files in this folder: they survive a restart and are shared by servers of the same model on "
      "this machine. Whoever can write there can change what the model remembers"),
    OPT("cache-disk-mib", 0, OPT_I32, &args.cache_disk_mib, "N",
      "total MiB of these files; the least recently used are deleted (default: 16384)"),
    OPT("share-cache", 0, OPT_FLAG, &args.share_cache, NULL,
      "share prompt prefixes between API keys; a client can then guess what others asked"),
    OPT("reuse-generated", 0, OPT_FLAG, &args.reuse_generated, NULL,
      "reuse the cache of generated tokens without evaluating them again; on some tiers this changes low bits"),
    OPT_WORDS("auto|mean|cls|last|rank", "pooling", 0, OPT_STR, &args.pooling, "P",
      "serve embeddings, pooled by: mean, cls (first token), last, rank (scores); auto (default): if the file says so"),
    OPT("name", 0, OPT_STR, &args.name, "NAME", "the model's name in the API (default: that of the file)"),
    OPT("alias", 0, OPT_LIST, &args.aliases, "NAME",
      "another name for the model, * matches anything; may be given more than once"),
    OPT("strict-model", 0, OPT_FLAG, &args.strict_model, NULL,
      "answer 404 to requests for any other model; without it they are served, and the log says so once"),
    OPT("max-tokens", 0, OPT_U32, &args.max_tokens, "N",
      "tokens per answer when the request sets no limit (default: until the context is full)"),
    OPT("think", 0, OPT_TRI, &args.think, NULL, "reasoning on or off when the request does not say"),
    OPT("think-budget", 0, OPT_I32, &args.think_budget, "N", "tokens of reasoning; -1: no limit (default)"),
    OPT("timeout", 0, OPT_U32, &args.timeout_s, "S", "end requests after this many seconds; 0: never (default)"),
    { 0 },
};

static const struct opt limit_opts[] = {
    OPT("max-body", 0, OPT_U32, &args.max_body_mib, "MIB", "largest request body (default: 8)"),
    OPT("max-memory", 0, OPT_U32, &args.memory_mib, "MIB",
      "host memory for requests, unread answers and cached grammars; a request that does not fit now gets 429, one that "
      "never can 413 (default: 512, or 4 x --max-body)"),
    OPT("max-connections", 0, OPT_U32, &args.connections, "N", "connections at the same time; beyond that the answer is 503 (default: 1024)"),
    OPT("idle", 0, OPT_U32, &args.idle_s, "S", "close connections that are idle for this many seconds (default: 60)"),
    OPT("drain", 0, OPT_U32, &args.drain_s, "S", "after SIGTERM, seconds for running requests to finish (default: 30)"),
    OPT("threads-http", 0, OPT_U32, &args.threads, "N", "threads for HTTP (default: 2)"),
    { 0 },
};

/* SIGTERM and SIGINT: the first one drains, the second one ends at once. Before there is anything to drain, the first
 * one ends at once too. */
static struct flag stop, serving;

static void on_signal(int sig)
{
    bool again = flag_is_set(&stop);
    if (again || !flag_is_set(&serving))
        _exit(sig == SIGTERM && !again ? EXIT_OK : EXIT_INTERRUPTED);
    flag_set(&stop, true);
}

static void catch_signals(void)
{
    struct sigaction sa = { .sa_handler = on_signal };
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

/* Host memory for prefixes, in bytes. */
static uint64_t cache_bytes(void)
{
    if (args.cache_mib >= 0)
        return (uint64_t)args.cache_mib << 20;
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return MIN((uint64_t)DEFAULT_CACHE_MIB << 20, all / 8);
}

static uint64_t disk_bytes(void)
{
    return (uint64_t)(args.cache_disk_mib >= 0 ? args.cache_disk_mib : DEFAULT_DISK_MIB) << 20;
}

static int check_args(void)
{
    if (args.port < 0 || args.port > 65535)
        return usage_error("--port %d: expected 0 to 65535", args.port);
    if (args.think_budget < -1)
        return usage_error("--think-budget %d: expected a number of tokens, or -1 for no limit", args.think_budget);
    if (args.cors && (args.cors[strcspn(args.cors, " ,\r\n")] ||
                      (strcmp(args.cors, "*") != 0 && !strstr(args.cors, "://"))))
        return usage_error("--cors %s: expected one origin such as https://chat.example.com, or *", args.cors);
    for (uint32_t i = 0; i < args.hosts.n; i++)
        if (args.hosts.s[i][strcspn(args.hosts.s[i], " /@:[]\r\n")] || !*args.hosts.s[i])
            return usage_error("--allow-host %s: expected a name such as chat.example.com, without a port",
                               args.hosts.s[i]);
    if (args.cache_disk_mib >= 0 && !args.cache_dir)
        return usage_error("--cache-disk-mib %d: expected --cache-dir DIR beside it", args.cache_disk_mib);
    for (uint32_t i = 0; i < args.aliases.n; i++)
        if (!*args.aliases.s[i] || strlen(args.aliases.s[i]) > 200 || args.aliases.s[i][strcspn(args.aliases.s[i], "[]?\r\n")])
            return usage_error("--alias '%s': expected a name of at most 200 characters without [ ] ?, in which * stands for anything",
                               args.aliases.s[i]);
    if (args.max_body_mib > 1024)
        return usage_error("--max-body %u: expected at most 1024 MiB", args.max_body_mib);
    if (args.connections > 100000 || args.threads > 64)
        return usage_error("--max-connections and --threads-http: expected at most 100000 and 64");
    return 0;
}

static int listen_first(struct server **s)
{
    struct err e = { 0 };
    struct server_opts o = { .host = args.host,
                             .port = (uint16_t)args.port,
                             .api_keys = args.keys.s,
                             .n_api_keys = args.keys.n,
                             .api_key_file = args.key_file,
                             .cors = args.cors,
                             .hosts = args.hosts.s,
                             .n_hosts = args.hosts.n,
                             .tls_cert = args.tls_cert,
                             .tls_key = args.tls_key,
                             .max_body = (uint64_t)args.max_body_mib << 20,
                             .max_memory = (uint64_t)args.memory_mib << 20,
                             .max_connections = args.connections,
                             .threads = args.threads,
                             .idle_s = args.idle_s,
                             .drain_s = args.drain_s,
                             .no_page = args.no_page,
                             .no_metrics = args.no_metrics,
                             .quiet = cli_model.quiet,
                             .behind_router = args.behind_router,
                             .ready_file = args.ready_file };
    if (server_create(&o, s, &e))
        return cli_fail(&e);
    if (server_is_open(*s))
        fprintf(stderr, "zinc: warning: whoever can reach %s can use the model: --api-key-file FILE asks for a key\n",
                server_url(*s));
    return 0;
}

static void print_address(const struct engine *eng, const struct server *s)
{
    const struct engine_info *in = engine_info(eng);
    const char *url = server_url(s);
    bool page = !args.no_page && !in->pooling && strncmp(url, "http", 4) == 0;
    char what[96] = "", few[64] = "";
    if (in->pooling && strcmp(in->pooling, "rank") == 0)
        snprintf(what, sizeof what, "ranks documents, ");
    else if (in->pooling)
        snprintf(what, sizeof what, "vectors of %u (pooling %s), ", in->n_vector, in->pooling);
    if (cli_model.quiet)
        return;
    cli_print_header(eng);
    if (in->fit[0] && in->n_ctx >= in->n_ctx_train) /* else the header has it */
        cli_say("%s", in->fit);
    if (in->few_rows)
        snprintf(few, sizeof few, ", steps of up to %u rows by kernels of their own", in->few_rows);
    fprintf(stderr, "serving %s at %s%s: %s%u slots of %u tokens%s%s%s\n", args.name ? args.name : in->label, url,
            strncmp(url, "http", 4) == 0 ? "/v1" : "", what, in->n_slots, in->n_ctx, few, page ? "; chat at " : "",
            page ? url : "");
    if (cli_model.o.batch_variant && !in->few_rows)
        cli_say("--batch-variant changes nothing here: steps of %u slots take the same kernels as those of one", in->n_slots);
}

static int serve_all(struct engine **eng, struct server **s)
{
    struct err e = { 0 };
    struct server_model m = { .sched = { .max_queue = args.queue, .n_draft = args.n_draft,
                                         .kv = { .host_bytes = cache_bytes(),
                                                 .reuse_generated = args.reuse_generated,
                                                 .share = args.share_cache,
                                                 .disk_dir = args.cache_dir,
                                                 .disk_bytes = disk_bytes() } },
                              .name = args.name,
                              .aliases = args.aliases.s,
                              .n_aliases = args.aliases.n,
                              .strict_model = args.strict_model,
                              .think = args.think,
                              .think_budget = args.think_budget,
                              .max_tokens = args.max_tokens,
                              .timeout_ns = args.timeout_s * 1000000000ull };
    int rc = check_args();
    if (rc || (rc = cli_open_vocab(eng)))
        return rc;
    catch_signals();
    if ((rc = listen_first(s)))
        return rc;
    cli_model.o.fit = true;
    cli_model.o.n_slots = args.slots;
    cli_model.o.score_rows = args.slots ? MAX(args.slots, DRAFT_MOST + 1u) : 0;
    cli_model.o.pooling = args.pooling ? args.pooling : "auto";
    if ((rc = cli_start(*eng)) || (rc = cli_sampling_params(*eng, &m.sampling)) != ARGS_RUN)
        return rc;
    if (args.n_draft && engine_info(*eng)->recurrent)
        fprintf(stderr, "zinc: warning: --draft: this model has a recurrent state, with which only zinc run and zinc chat guess\n");
    print_address(*eng, *s);
    flag_set(&serving, true);
    return server_run(*s, *eng, &m, &stop, &e) ? cli_fail(&e) : EXIT_OK;
}

static bool has_ctx(const struct router_model *m)
{
    bool has = false;
    for (uint32_t i = 0; m->argv[i]; i++)
        has = has || strncmp(m->argv[i], "--ctx=", 6) == 0;
    return has;
}

static int check_several(const struct serve_models *m)
{
    uint32_t pinned = 0, with_ctx = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        pinned += m->m[i].pinned;
        with_ctx += has_ctx(&m->m[i]);
    }
    if (args.max_loaded && (args.max_loaded < pinned || (args.max_loaded == pinned && pinned < m->n)))
        return usage_error("--max-loaded %u: expected more than the %u models that are pinned, or the others could never be loaded",
                           args.max_loaded, pinned);
    args.max_loaded = MIN(args.max_loaded ? args.max_loaded : with_ctx == m->n ? m->n : pinned + 1, m->n);
    return 0;
}

static uint64_t host_free(void)
{
    struct host_look h;
    engine_host(&h);
    return h.mem_free_bytes;
}

static int serve_several(struct server **s)
{
    /* what a model's process is given; its address and name are the router's */
    static const struct opt *const tables[] = { request_opts, limit_opts, cli_model_opts, cli_sampling_opts, NULL };
    struct serve_models m = { 0 };
    struct err e = { 0 };
    int rc = check_args();
    if (!rc && cli_model.o.path)
        rc = usage_error("--models %s: expected without a model beside it (%s)", args.models, cli_model.o.path);
    if (!rc && (args.name || args.aliases.n))
        rc = usage_error("--%s names one model: with --models, names stand in a list (doc/server.md)", args.name ? "name" : "alias");
    if (!rc && !(rc = serve_models_list(args.models, tables, args.unload_after_s, &m)) && !(rc = check_several(&m))) {
        catch_signals();
        rc = listen_first(s);
    }
    if (!rc) {
        const char *url = server_url(*s);
        if (!cli_model.quiet)
            fprintf(stderr, "serving %u models at %s%s, at most %u loaded at a time%s%s\n", m.n, url, strncmp(url, "http", 4) == 0 ? "/v1" : "",
                    args.max_loaded, args.no_page ? "" : "; chat at ", args.no_page ? "" : url);
        flag_set(&serving, true);
        struct router_opts o = { .models = m.m, .n_models = m.n, .max_loaded = args.max_loaded,
                                 .max_bytes = (uint64_t)args.max_loaded_mib << 20, .host_free = host_free };
        rc = server_run_models(*s, &o, &stop, &e) ? cli_fail(&e) : EXIT_OK;
    }
    server_destroy(*s);
    serve_models_free(&m);
    return rc;
}

static int serve_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    struct engine *eng = NULL;
    struct server *s = NULL;
    if (args.models)
        return serve_several(&s);
    if (args.max_loaded || args.max_loaded_mib || args.unload_after_s)
        return usage_error("--%s is for several models: --models DIR beside it",
                           args.max_loaded ? "max-loaded" : args.max_loaded_mib ? "max-loaded-mib" : "unload-after");
    int rc = serve_all(&eng, &s);
    server_destroy(s);
    engine_close(eng);
    return rc;
}

static const struct opt_group groups[] = {
    { "address", server_opts },    { "several models", several_opts }, { "requests", request_opts }, { "model and hardware", cli_model_opts },
    { "limits", limit_opts },      { "sampling defaults, when the request does not say", cli_sampling_opts }, { 0 },
};

const struct command cmd_serve = {
    .name = "serve",
    .summary = "serve over HTTP: OpenAI, Anthropic and Ollama APIs, a chat page",
    .usage = "MODEL.gguf|--models DIR [--host ADDR] [--port N] [--slots N] [--api-key-file FILE] [options]",
    .about =
        "Serves the APIs of OpenAI (chat completions, responses, completions) and Anthropic (messages) at\n"
        "http://127.0.0.1:8080/v1 and of Ollama at /api, several requests at the same time, and a chat page at\n"
        "http://127.0.0.1:8080/. Other machines can reach it only with --host. Each finished request is one\n"
        "line on stderr (--quiet: none); /health and /metrics are for monitoring. SIGTERM lets running requests\n"
        "finish and exits with 0; a second one stops at once. Options without a command mean serve when --port\n"
        "is among them, or -p with a number and no option that only zinc run has.\n"
        "\n"
        "  zinc serve qwen3-8b-q4_k_m.gguf\n"
        "  zinc -m qwen3-8b-q4_k_m.gguf -p 8080\n"
        "  zinc serve model.gguf --host 0.0.0.0 --api-key-file keys --slots 16\n"
        "  zinc serve --models ~/models --max-loaded 2 --ctx 16384\n"
        "  curl http://127.0.0.1:8080/v1/chat/completions \\\n"
        "       -H 'Content-Type: application/json' \\\n"
        "       -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is a noble gas?\"}]}'\n"
        "\n"
        "doc/server.md has the details: endpoints, metrics, systemd, TLS; doc/replicas.md shows several servers\n"
        "behind a proxy (make install puts both below share/doc/zinc).",
    .groups = groups,
    .operands = cli_model_operand,
    .main = serve_main,
};
