/* tools/metalsim/archive.c: MTLBinaryArchive: which pipelines are compiled. The file is a list of lines; one of another GPU or
 * macOS opens and has none of them, as Apple's documents say of archives after an update. Source: Apple, "Metal Binary
 * Archives"; metal-cpp and objc2 for signatures and the codes of MTLBinaryArchiveError. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/metalsim/kernels.h"
#include "tools/metalsim/sim.h"

enum { INVALID_FILE = 1, INTERNAL_ERROR = 4, MAX_LINE = 160 };
#define HEAD "metalsim archive"
#define TAIL "end"

struct archive { struct obj o; char (*line)[MAX_LINE]; int n; };
static void archive_free(struct obj *o) { free(((struct archive *)o)->line); }

static void keep(struct archive *a, const char *line)
{
    if (!(a->line = realloc(a->line, ((size_t)a->n + 1) * sizeof *a->line)))
        abort();
    snprintf(a->line[a->n++], MAX_LINE, "%s", line);
}

static void line_of(const struct pipeline_descriptor *p, char line[MAX_LINE])
{
    snprintf(line, MAX_LINE, "%016llx %.80s %lu %d %d", (unsigned long long)p->f->m->hash, p->f->k->name, p->threads, p->whole,
             p->indirect);
}

static bool has(const struct archive *a, const char *line)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->line[i], line) == 0)
            return true;
    return false;
}

bool sim_archived(const struct pipeline_descriptor *p)
{
    char line[MAX_LINE];
    line_of(p, line);
    for (unsigned long i = 0; p->archives && i < p->archives->n; i++)
        if (has(p->archives->item[i], line))
            return true;
    return false;
}

static void machine(char line[MAX_LINE])
{
    snprintf(line, MAX_LINE, "Apple M%d, macOS %d", sim_options.chip, sim_options.macos);
}

static bool add(struct archive *a, SEL s, struct pipeline_descriptor *p, void **error)
{
    char line[MAX_LINE];
    RULE(p && p->o.isa == &pipeline_descriptor_class && p->f, s->name, "not a compute pipeline's descriptor with a function");
    line_of(p, line);
    if (has(a, line))
        return true;
    if (!sim_archived(p))
        sim_stats.compiled++;
    keep(a, line);
    return true;
}

static bool serialize(struct archive *a, SEL s, struct url *to, void **error)
{
    static int calls;
    char line[MAX_LINE];
    RULE(to && to->o.isa == &url_class, s->name, "not an NSURL of a file");
    bool fails = sim_options.inject == INJECT_SERIALIZE && ++calls >= sim_options.inject_at;
    FILE *f = fopen(to->path, "w");
    if (f) {
        machine(line);
        fprintf(f, HEAD "\n%s\n", line);
        for (int i = 0; i < a->n && !fails; i++)
            fprintf(f, "%s\n", a->line[i]);
        fails = fprintf(f, "%s\n", fails ? "" : TAIL) < 0 || fails;
        fails = fclose(f) || fails;
    }
    if (f && !fails)
        return true;
    if (error)
        *error = sim_error("MTLBinaryArchiveDomain", INTERNAL_ERROR, "the file cannot be written");
    return false;
}

static struct method archive_methods[] = { METHOD("addComputePipelineFunctionsWithDescriptor:error:", add),
                                           METHOD("serializeToURL:error:", serialize), METHOD("setLabel:", sim_no_label), { 0 } };
const struct class archive_class = { .name = "MTLBinaryArchive", .bytes = sizeof(struct archive), .destroy = archive_free,
                                     .methods = archive_methods };

/* ---- MTLBinaryArchiveDescriptor, and reading a file ---- */

struct archive_descriptor { struct obj o; struct url *url; };
static void descriptor_free(struct obj *o) { sim_release(((struct archive_descriptor *)o)->url); }
static void set_url(struct archive_descriptor *d, SEL s, struct url *u)
{
    RULE(!u || u->o.isa == &url_class, s->name, "not an NSURL");
    sim_retain(u);
    sim_release(d->url);
    d->url = u;
}
static struct method descriptor_methods[] = { METHOD("setUrl:", set_url), { 0 } };
const struct class archive_descriptor_class = { .name = "MTLBinaryArchiveDescriptor", .bytes = sizeof(struct archive_descriptor),
                                                .destroy = descriptor_free, .methods = descriptor_methods };

static bool read_file(struct archive *a, const char *path)
{
    char line[MAX_LINE], here[MAX_LINE];
    bool ok = false, ours;
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f) || strcmp(line, HEAD "\n") || !fgets(line, sizeof line, f))
        goto out;
    machine(here);
    line[strcspn(line, "\n")] = 0;
    ours = strcmp(line, here) == 0;
    while (!ok && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, TAIL) == 0)
            ok = true;
        else if (ours)
            keep(a, line);
    }
out:
    if (f)
        fclose(f);
    return ok;
}

void *sim_archive_new(void *descriptor, void **error)
{
    struct archive_descriptor *d = descriptor;
    RULE(d && d->o.isa == &archive_descriptor_class, "newBinaryArchiveWithDescriptor:error:", "not an archive's descriptor");
    struct archive *a = sim_new(&archive_class);
    if (!d->url || read_file(a, d->url->path))
        return a;
    sim_release(a);
    if (error)
        *error = sim_error("MTLBinaryArchiveDomain", INVALID_FILE, "the file is not a valid archive");
    return NULL;
}
