/* rt/walk_plan.h
 * The lists of a persistent plan (kernels/walk.h) as data: made for a card that is only described, saved beside the stream, read
 * again, verified against the stream, printed. Fixed-size records and no pointers: addresses in arguments are the stream's
 * (SADDR), which whoever loads a list turns into its device's; kernels are numbers among the names that the plan brings along.
 *
 *     struct walk_plan *p;
 *     walk_plan_make(s, &card, &p, &e)   or   walk_plan_load("model.zwalk", s, &p, &e)
 *     walk_plan_dump(stdout, p, s);
 *     walk_plan_free(p);
 */
#ifndef ZINC_RT_WALK_PLAN_H
#define ZINC_RT_WALK_PLAN_H

#include <stdio.h>

#include "rt/walk.h"

/* What lists are made for. */
struct walk_card {
    const char *name; /* at most 23 characters */
    struct dispatch_target target;
    const struct walk_form *form;
    uint32_t groups;  /* that walk                                       */
    bool no_more;     /* of them than the longest item of a list has     */
    bool (*has)(void *user, uint32_t kernel); /* a body; asked only for kernels that walk_takes */
    void *user;
};

#define WALK_MAGIC "ZWALK\0\0\001" /* 8 bytes: the name, the version */
#define WALK_ALONE UINT32_MAX       /* a launch between the walks     */
#define WALK_MOST_GROUPS (1u << 16) /* cards hold some hundreds       */

/* The head of a saved plan; behind it lie the four tables below, then the hash of all that. */
struct walk_head {
    char magic[8];
    char card[24];
    uint64_t stream;     /* hash of the stream that the lists are of          */
    uint32_t n_cores;
    uint32_t form_bytes; /* that a list may have                              */
    uint32_t n_kernels, n_launches, n_walks;
    uint32_t list_bytes; /* of all lists                                      */
};

struct walk_kernel {
    char name[56]; /* "k_embed" */
    uint32_t args_bytes, pad;
};

/* A launch of a row's step, in order. */
struct walk_launch {
    uint32_t kernel; /* among the plan's                     */
    uint32_t cmd;    /* the stream's command it belongs to   */
    uint32_t walk;   /* that it is an item of, or WALK_ALONE */
    uint32_t pad;
};

struct walk_run {
    uint32_t first, n; /* launches: the items        */
    uint32_t groups;   /* work-groups that walk; of all lists at most WALK_MOST_GROUPS, for each is told what it gets */
    uint32_t bytes;    /* of its list, items first, then arguments */
};

struct walk_plan {
    struct walk_head h;
    struct walk_kernel *kernel; /* [n_kernels]  */
    struct walk_launch *launch; /* [n_launches] */
    struct walk_run *walk;      /* [n_walks]    */
    uint8_t *lists;             /* [list_bytes], one after the other */
};

/* The plan for steps of a row, verified. -ENOTSUP: the card has no kernel for a command, or no body for two launches in a row;
 * -EINVAL: the stream has no steps of a single row. */
int walk_plan_make(const struct stream *s, const struct walk_card *card, struct walk_plan **out, struct err *e);
void walk_plan_free(struct walk_plan *p); /* NULL is fine */

/* What of a plan was looked at. */
struct walk_seen {
    uint32_t waits; /* of commands, for launches of the same list                 */
    uint32_t pairs; /* of items that may overlap                                  */
};
/* Is the plan one of this stream, and can its lists deadlock or miss a dependency? It shares no code with what makes lists:
 * tables and kernels are those of this program, lists pass walk_list_verify, arguments lie apart in their list and their
 * addresses in arenas; an item needs no less than the items that do what the stream has its command wait for; and two items of
 * which the later one does not wait for the earlier do not share an address that one of them writes, nor, of different commands,
 * private memory. -EINVAL names list, item and command. seen may be NULL. */
int walk_plan_verify(const struct walk_plan *p, const struct stream *s, struct walk_seen *seen, struct err *e);

/* rt/walk_file.c. A file is little-endian, structs as in memory. What is loaded has been verified. */
int walk_plan_save(const struct walk_plan *p, const char *path, struct err *e);
int walk_plan_load(const char *path, const struct stream *s, struct walk_plan **out, struct err *e);
int walk_plan_load_memory(const char *name, const void *bytes, uint64_t n, const struct stream *s, struct walk_plan **out,
                          struct err *e);
struct walk_plan *walk_plan_alloc(const struct walk_head *h); /* tables of these sizes, zero; NULL: no memory */
uint64_t walk_file_hash(const void *bytes, uint64_t n);       /* what closes a file                          */

/* rt/walk_dump.c. Text for a verified plan: each list item by item, then what its work-groups get. Stable, for golden tests and
 * diffs. JSON has the same. */
void walk_plan_dump(FILE *f, const struct walk_plan *p, const struct stream *s);
int walk_plan_json(FILE *f, const struct walk_plan *p, const struct stream *s); /* 0 or -errno */
/* What one work-group does of each list, in its order. One that a list does not have does nothing there. */
void walk_plan_dump_group(FILE *f, const struct walk_plan *p, const struct stream *s, uint32_t group);

/* For those three files. */
const uint8_t *walk_plan_list(const struct walk_plan *p, uint32_t walk);
struct walk_item walk_plan_item(const struct walk_plan *p, uint32_t walk, uint32_t item);
uint32_t walk_kernel_find(const char *name); /* enum kernel_id; KERNEL_COUNT: this program has no such kernel */
/* The first command that a launch does: those before its own that have no launch are made by it (rt/dispatch.c). */
uint32_t walk_first_cmd(const struct walk_plan *p, uint32_t launch);

#endif
