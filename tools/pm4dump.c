/* pm4dump: the packets of a compute queue as text. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/stdout.h"
#include "rt/pm4/decode.h"

static const char usage[] =
    "usage: pm4dump [OPTION]... [FILE]\n"
    "Prints PM4 packets, what a compute queue of an AMD GPU executes: every field and register by name, and what is\n"
    "wrong with them. FILE (or standard input) holds little-endian dwords, or hex words as text, where '#' begins a\n"
    "comment.\n"
    "\n"
    "  --gen=GEN        gfx11 (RDNA3) or gfx12 (RDNA4, the default)\n"
    "  --verbose        a line for each field, bit fields of registers included\n"
    "  --json           the same as JSON\n"
    "  --buffers=FILE   the memory there is, to judge addresses by: lines 'ADDRESS BYTES NAME', numbers as in C\n"
    "  --check          exit status 1 when there is anything wrong with the packets\n"
    "  -h, --help       this text\n"
    "\n"
    "A line is: where the packet begins (in dwords), its name, its fields. Small fields that are 0 are left out.\n"
    "Lines that begin with '!' say what is wrong with the packet above.\n"
    "\n"
    "  echo 'C0004600 00000407' | pm4dump\n"
    "       0  EVENT_WRITE        event_type=cs_partial_flush event_index=4\n"
    "  echo 'C0027600 20C 1000 7F' | pm4dump --verbose         a kernel's address, written to its registers\n"
    "  pm4dump --gen=gfx11 --buffers=buffers.txt ring.bin      from the report of a hang\n"
    "  pm4dump --json ring.bin | jq '.packets[] | select(.problems != [])'\n"
    "\n"
    "Exit status: 0, or 1 when a file cannot be read, 2 for wrong usage.\n";

enum { MAX_BYTES = 1 << 30 };

struct region {
    uint64_t va, bytes;
    char *name;
};
struct memory {
    struct region *r;
    size_t n;
    char text[160];
};

static const struct region *region_at(const struct memory *m, uint64_t va)
{
    for (size_t i = 0; i < m->n; i++)
        if (va >= m->r[i].va && va - m->r[i].va < m->r[i].bytes)
            return &m->r[i];
    return NULL;
}

static const char *judge(void *user, uint64_t va, uint64_t bytes, bool write)
{
    struct memory *m = user;
    const struct region *r = region_at(m, va);
    if (!r)
        return "in no buffer";
    if (bytes <= r->bytes - (va - r->va))
        return NULL;
    snprintf(m->text, sizeof m->text, "runs past the end of %s", r->name);
    return m->text;
}

static const char *place(void *user, uint64_t va)
{
    static char text[160];
    const struct region *r = region_at(user, va);
    if (r)
        snprintf(text, sizeof text, "%s+0x%" PRIx64, r->name, va - r->va);
    return r ? text : NULL;
}

/* ---- input ---- */

/* All of a file with a 0 after it; NULL: a line is in e. */
static char *read_all(const char *path, size_t *n, struct err *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t cap = 1 << 16;
    char *data = f ? malloc(cap + 1) : NULL;
    *n = 0;
    while (data) {
        *n += fread(data + *n, 1, cap - *n, f);
        if (*n < cap || cap >= MAX_BYTES)
            break;
        char *more = realloc(data, (cap *= 2) + 1);
        if (!more)
            free(data);
        data = more;
    }
    if (!data || ferror(f)) {
        err_set(e, -EIO, "%s: cannot be read: %s", path, strerror(errno));
        free(data);
        data = NULL;
    } else if (*n >= MAX_BYTES) {
        err_set(e, -EFBIG, "%s: more than 1 GiB, which is no queue's", path);
        free(data);
        data = NULL;
    } else {
        data[*n] = 0;
    }
    if (f && f != stdin)
        fclose(f);
    return data;
}

/* A packet's header has a byte of 0xC0 or more, which text has not. */
static bool is_text(const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((data[i] < 32 || data[i] > 126) && data[i] != '\t' && data[i] != '\r' && data[i] != '\n')
            return false;
    return true;
}

/* dw has room for a word per byte of the text. */
static int parse_text(const char *path, const char *data, uint32_t *dw, uint32_t *n, struct err *e)
{
    unsigned line = 1;
    *n = 0;
    for (const char *p = data; *p;) {
        if (*p == '#') {
            p += strcspn(p, "\n");
        } else if (strchr(" \t\r\n,", *p)) {
            line += *p++ == '\n';
        } else {
            size_t len = strcspn(p, " \t\r\n,#");
            const char *digits = len > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X') ? p + 2 : p;
            size_t n_digits = len - (size_t)(digits - p);
            if (strspn(digits, "0123456789abcdefABCDEF") < n_digits || n_digits < 1 || n_digits > 8)
                return err_set(e, -EINVAL, "%s: line %u: '%.*s' is no word of 1 to 8 hex digits", path, line,
                               (int)(len > 40 ? 40 : len), p);
            dw[(*n)++] = (uint32_t)strtoul(digits, NULL, 16);
            p += len;
        }
    }
    return 0;
}

static uint32_t *load_words(const char *path, uint32_t *n, struct err *e)
{
    size_t bytes;
    char *data = read_all(path, &bytes, e);
    if (!data)
        return NULL;
    bool text = is_text(data, bytes);
    uint32_t *dw = malloc((text ? bytes + 1 : bytes / 4 + 1) * sizeof *dw);
    int rc = 0;
    if (!dw)
        rc = err_set(e, -ENOMEM, "%s: out of memory", path);
    else if (text)
        rc = parse_text(path, data, dw, n, e);
    else if (bytes % 4)
        rc = err_set(e, -EINVAL, "%s: %zu bytes: neither text nor a whole number of dwords", path, bytes);
    else
        memcpy(dw, data, (*n = (uint32_t)(bytes / 4)) * 4ull);
    if (rc == 0 && *n == 0)
        rc = err_set(e, -EINVAL, "%s: holds no dwords", path);
    free(data);
    if (rc) {
        free(dw);
        return NULL;
    }
    return dw;
}

static int load_buffers(const char *path, struct memory *m, struct err *e)
{
    size_t bytes;
    unsigned line = 0;
    char *data = read_all(path, &bytes, e), *rest = data, *text;
    if (!data)
        return e->code;
    while ((text = strsep(&rest, "\n"))) {
        char *end = text + strspn(text, " \t\r");
        struct region r = { 0 }, *more;
        line++;
        if (*end == 0 || *end == '#')
            continue;
        r.va = strtoull(end, &end, 0);
        r.bytes = strtoull(end, &end, 0);
        end += strspn(end, " \t");
        end[strcspn(end, "\r")] = 0;
        if (r.bytes == 0 || r.va + r.bytes < r.va || *end == 0) {
            err_set(e, -EINVAL, "%s: line %u: expected ADDRESS BYTES NAME, found '%.60s'", path, line, text);
            free(data);
            return -EINVAL;
        }
        if (!(more = realloc(m->r, (m->n + 1) * sizeof r)) || !(r.name = strdup(end))) {
            m->r = more ? more : m->r;
            free(data);
            return err_set(e, -ENOMEM, "%s: out of memory", path);
        }
        m->r = more;
        m->r[m->n++] = r;
    }
    free(data);
    return 0;
}

/* ---- JSON ---- */

struct json_packet {
    const struct pm4_packet *p;
    json_t *fields, *problems;
};

static json_t *hex(uint64_t v)
{
    return json_sprintf("0x%" PRIx64, v);
}

static void json_value(void *user, const struct pm4_value *v)
{
    const struct json_packet *j = user;
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(v->name));
    json_object_set_new(o, "dword", json_integer(v->dw));
    switch (v->kind) {
    case PM4_VALUE_NUM:
    case PM4_VALUE_FIELD: json_object_set_new(o, "value", json_integer((json_int_t)v->value)); break;
    case PM4_VALUE_DATA: {
        json_t *words = json_array();
        for (uint64_t i = 0; i < v->value; i++)
            json_array_append_new(words, hex(j->p->dw[v->dw + i]));
        json_object_set_new(o, "words", words);
        break;
    }
    case PM4_VALUE_HEX:
    case PM4_VALUE_OFFSET:
    case PM4_VALUE_REG:
    case PM4_VALUE_SETS:
    case PM4_VALUE_VA: json_object_set_new(o, "value", hex(v->value)); break;
    }
    if (v->kind == PM4_VALUE_SETS || v->kind == PM4_VALUE_FIELD)
        json_object_set_new(o, "register", hex(v->reg));
    if (v->word)
        json_object_set_new(o, "word", json_string(v->word));
    if (v->verdict)
        json_object_set_new(o, "verdict", json_string(v->verdict));
    json_array_append_new(j->fields, o);
}

static void json_problem(void *user, const char *text)
{
    const struct json_packet *j = user;
    json_array_append_new(j->problems, json_string(text));
}

static unsigned print_json(const struct pm4_view *v, const uint32_t *dw, uint32_t n)
{
    struct pm4_cursor c = { .gen = v->gen, .dw = dw, .n = n };
    struct pm4_state state;
    struct pm4_view mine = *v;
    struct pm4_packet p;
    json_t *packets = json_array();
    unsigned problems = 0;
    pm4_state_forget(&state);
    mine.state = &state;
    while (pm4_next(&c, &p)) {
        struct json_packet j = { &p, json_array(), json_array() };
        problems += pm4_explain(&p, &mine, &(struct pm4_sink){ &j, json_value, json_problem });
        json_t *o = json_object();
        json_object_set_new(o, "at", json_integer(p.at));
        json_object_set_new(o, "dwords", json_integer(p.n));
        json_object_set_new(o, "name", p.form == PM4_FORM_PACKET && p.name ? json_string(p.name) : json_null());
        json_object_set_new(o, "fields", j.fields);
        json_object_set_new(o, "problems", j.problems);
        json_array_append_new(packets, o);
    }
    json_t *all = json_pack("{s:s, s:i, s:i, s:o}", "gen", v->gen == PM4_GFX11 ? "gfx11" : "gfx12", "dwords", (int)n,
                            "problems", (int)problems, "packets", packets);
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
    return problems;
}

static enum pm4_gen gen_of(const char *name)
{
    if (strncmp(name, "gfx11", 5) == 0)
        return PM4_GFX11;
    if (strncmp(name, "gfx12", 5) == 0)
        return PM4_GFX12;
    fprintf(stderr, "pm4dump: --gen=%s: expected gfx11 or gfx12\n", name);
    exit(2);
}

static int run_program(int argc, char **argv)
{
    static const struct option options[] = {
        { "gen", required_argument, NULL, 'g' }, { "verbose", no_argument, NULL, 'v' },
        { "json", no_argument, NULL, 'j' },      { "buffers", required_argument, NULL, 'b' },
        { "check", no_argument, NULL, 'c' },     { "help", no_argument, NULL, 'h' },
        { 0 } };
    struct pm4_view v = { .gen = PM4_GFX12 };
    struct memory m = { 0 };
    struct err e = { 0 };
    const char *buffers = NULL;
    bool json = false, check = false;
    uint32_t n = 0;
    int o;
    while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (o) {
        case 'g': v.gen = gen_of(optarg); break;
        case 'v': v.verbose = true; break;
        case 'j': json = true; break;
        case 'b': buffers = optarg; break;
        case 'c': check = true; break;
        case 'h': return fputs(usage, stdout) < 0;
        default: return fputs("try pm4dump --help\n", stderr), 2;
        }
    if (optind + 1 < argc)
        return fputs(usage, stderr), 2;
    if (buffers && load_buffers(buffers, &m, &e))
        return fprintf(stderr, "pm4dump: %s\n", e.msg), 1;
    if (buffers) {
        v.check = judge;
        v.place = place;
        v.user = &m;
    }
    uint32_t *dw = load_words(optind < argc ? argv[optind] : "-", &n, &e);
    if (!dw)
        return fprintf(stderr, "pm4dump: %s\n", e.msg), 1;
    unsigned problems = json ? print_json(&v, dw, n) : pm4_print(stdout, &v, dw, n);
    for (size_t i = 0; i < m.n; i++)
        free(m.r[i].name);
    free(m.r);
    free(dw);
    if (fflush(stdout) != 0 || ferror(stdout))
        return fprintf(stderr, "pm4dump: cannot write: %s\n", strerror(errno)), 1;
    return check && problems > 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("pm4dump", run_program(argc, argv));
}
