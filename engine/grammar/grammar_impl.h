/* engine/grammar/grammar_impl.h
 * How a grammar is made and walked, for the files grammar*.c:
 *
 *     text --grammar_parse--> grammar_ast --grammar_build--> automaton --grammar_config, grammar_mask--> masks
 *
 * The automaton has one part per rule: states with edges over bytes, over whole tokens, or to another rule, which comes
 * back to a state of ours. What is still open when a rule is called lies on a stack of frames (return state, parent).
 * Stacks are shared and interned: equal stacks have one number. The set of all (state, stack) that the text so far
 * leads to is a configuration, interned as well; bytes lead from one to the next, and these steps are remembered. So
 * the grammar becomes a deterministic automaton, piece by piece, where it is used. */
#ifndef ZINC_GRAMMAR_GRAMMAR_IMPL_H
#define ZINC_GRAMMAR_GRAMMAR_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/grammar/vocab_index.h"

#define GRAMMAR_NONE UINT32_MAX

enum {
    GRAMMAR_MAX_RULES = 1 << 16,
    GRAMMAR_MAX_STATES = 5 << 17,
    GRAMMAR_MAX_EDGES = 3 << 18,
    GRAMMAR_MAX_REPEAT = 100000,
    GRAMMAR_MAX_UNTIL = 256, /* characters of %until                                    */
    GRAMMAR_MAX_NESTING = 200, /* groups in groups                                      */
    GRAMMAR_MAX_DEPTH = 1000,  /* of a stack: deeper calls are refused                  */
    GRAMMAR_MAX_SEEN = 1 << 15, /* (state, stack) in one step: a text that can be read in more ways is given up */
    GRAMMAR_SOFT_BYTES = 12 << 20, /* of masks and configurations; then all are made anew */
    GRAMMAR_HARD_BYTES = 24 << 20, /* one token that takes them here is given up          */
    GRAMMAR_START_STEPS = 2 << 20, /* of finding the first configuration, when compiling  */
};

/* ---- grammar_parse.c: the text as a tree ---- */

enum node_kind {
    NODE_LITERAL, /* code points cp[a .. a + b)                     */
    NODE_CLASS,   /* b ranges: cp[a], cp[a + 1]; ascending, disjoint */
    NODE_UNTIL,   /* code points cp[a .. a + b)                     */
    NODE_RULE,    /* a                                              */
    NODE_TOKEN,   /* id a                                           */
    NODE_NOT_TOKEN,
    NODE_SEQ, /* children from a on, linked by next; none: empty    */
    NODE_ALT,
    NODE_REPEAT, /* child a, min to max times; max GRAMMAR_NONE: any */
};

struct grammar_node {
    enum node_kind kind;
    uint32_t a, b, min, max, next;
};

struct grammar_rule {
    uint32_t name, n_name; /* in the text                        */
    uint32_t body;         /* node; GRAMMAR_NONE: not defined    */
};

struct grammar_ast {
    const char *text;
    size_t n_text;
    struct grammar_node *node;
    uint32_t n_node, cap_node;
    uint32_t *cp;
    uint32_t n_cp, cap_cp;
    struct grammar_rule *rule;
    uint32_t n_rule, cap_rule, root;
    uint32_t *name_slot; /* rules by hash of their names, + 1 */
    uint32_t n_slot;
};

int grammar_parse(const struct vocab_index *v, const char *text, size_t n, struct grammar_ast *out, struct err *e);
void grammar_ast_finish(struct grammar_ast *a);
/* "line 3, column 7" of a byte of the text. */
const char *grammar_where(const struct grammar_ast *a, size_t at, char buf[48]);

/* Room for n elements; NULL: out of memory, and p as before. */
void *grammar_grow(void *p, uint32_t *cap, uint64_t n, size_t size);

/* Adds the code points lo..hi to a set of ranges that was made ascending and disjoint by ranges_normalize. */
uint32_t ranges_normalize(uint32_t *cp, uint32_t n);                       /* n ranges, returns how many are left */
uint32_t ranges_invert(const uint32_t *cp, uint32_t n, uint32_t *out);     /* out: n + 1 ranges; returns how many */
size_t utf8_encode(uint32_t cp, char out[4]);

/* ---- grammar_build.c: the tree as an automaton ---- */

enum edge_kind {
    EDGE_EMPTY,
    EDGE_CLASS,   /* bytes lo..hi of plain text                      */
    EDGE_LITERAL, /* the same, and control tokens' texts may match   */
    EDGE_CALL,    /* rule `arg`, comes back to `to`                  */
    EDGE_TAIL,    /* rule `arg`, nothing is left to do afterwards    */
    EDGE_TOKEN,   /* token `arg`                                     */
    EDGE_NOT_TOKEN,
};

struct grammar_edge {
    uint32_t to, arg;
    uint8_t kind, lo, hi;
};

enum {
    STATE_FINAL = 1,   /* its rule ends here                             */
    STATE_KERNEL = 2,  /* has edges over bytes or tokens                 */
    STATE_LITERAL = 4, /* has literal edges                              */
    STATE_TOKEN = 8,   /* has edges over tokens                          */
};

struct automaton {
    uint32_t n_states, n_edges, n_rules, root;
    struct grammar_edge *edge;
    uint32_t *edge_at;   /* [n_states + 1]                                                       */
    uint32_t *need;      /* how much deeper the stack must get to end the rule; GRAMMAR_NONE: it cannot end */
    uint8_t *flags;
    uint32_t *fallback;  /* %until: the state of the next shorter beginning that also fits, or GRAMMAR_NONE */
    uint32_t *entry;     /* of each rule                                                         */
    uint8_t class_of[256], byte_of[256]; /* bytes that no edge tells apart                       */
    uint32_t n_classes;
};

int automaton_build(const struct vocab_index *v, const struct grammar_ast *ast, struct automaton *out, struct err *e);
void automaton_finish(struct automaton *a);
/* grammar_check.c: left recursion, rules that cannot end, and what follows from the edges. */
int automaton_check(const struct vocab_index *v, const struct grammar_ast *ast, struct automaton *a, struct err *e);

/* ---- grammar_config.c: configurations and steps ---- */

enum { FRAME_EMPTY = 0, FRAME_ANY = 1 }; /* below the root rule; below a part that is looked at alone */
enum { CONFIG_DEAD = 0, CONFIG_UNKNOWN = 0xffffffff, CONFIG_FAILED = 0xfffffffe };
enum {
    CONFIG_ACCEPT = 1, /* the text so far is complete        */
    CONFIG_RETURN = 2, /* ... as far as FRAME_ANY lets us see */
    CONFIG_TOKEN = 8, CONFIG_LITERAL = 16, /* some state has such edges */
};

struct grammar_frame {
    uint32_t ret, parent;
    uint32_t depth, reach; /* reach: the greatest depth + need below this frame */
};

struct grammar_item {
    uint32_t state, frame;
};

/* What a configuration allows as long as it does not leave its stack, and where in the trie it does. */
struct grammar_base {
    const uint64_t *mask;
    uint32_t *ret, n_ret, cap_ret; /* trie nodes after which FRAME_ANY is left */
    uint32_t reach;                /* how deep the stack got                   */
};

struct grammar_config {
    uint32_t item, n; /* in items                                       */
    uint32_t row, literal_row; /* in rows; 0: not made                    */
    uint32_t reach;   /* the greatest depth + need of its items         */
    uint8_t flags;
    uint8_t plain; /* grammar_mask.c: does every plain character lead back to it? 0: not looked at */
    const uint64_t *mask;
    struct grammar_base *base;
};

struct grammar_table { /* numbers of interned things by hash */
    uint32_t *slot, n_slot;
};

struct grammar_cache {
    struct grammar_frame *frame;
    struct grammar_item *item;
    struct grammar_config *config;
    uint32_t *row;
    uint64_t **mask; /* masks that differ; [0] is none */
    uint32_t n_frame, n_item, n_config, n_row, n_mask;
    uint32_t cap_frame, cap_item, cap_config, cap_row, cap_mask;
    struct grammar_table frames, configs, masks;
    uint64_t mask_bytes; /* and bases */
};

struct grammar_work { /* of one closure; lent to a grammar while it computes, see work_take */
    struct grammar_work *next;
    struct grammar_item todo[2 * GRAMMAR_MAX_SEEN], kernel[2 * GRAMMAR_MAX_SEEN], seen[2 * GRAMMAR_MAX_SEEN];
    uint32_t stamp[2 * GRAMMAR_MAX_SEEN]; /* seen[i] counts if stamp[i] == now */
    uint32_t n_todo, n_kernel, n_seen, now;
    uint8_t flags;
};

/* Its owner has pending, ended and mask, its grammar's lock the rest. */
struct grammar_state {
    struct grammar *g;
    struct grammar_state *prev, *next, *next_dead;
    uint32_t config, renewed; /* config GRAMMAR_NONE: new, at the origin */
    int32_t pending;          /* a token that was chosen and not yet walked over; -1: none     */
    bool ended;
    const uint64_t *mask;     /* of where it stands, once it is made; the cache keeps it so long */
};

/* `lock` is held while anything is computed. States come and go by two lists, under a lock that is never held for
 * long; whoever gets the large lock takes them from there. */
struct grammar {
    atomic_uint refs;
    atomic_uint_least64_t bytes; /* see grammar_bytes */
    pthread_mutex_t lock, gate;
    struct grammar_state *born, *dead; /* under gate */
    atomic_bool news;                  /* one of them is not empty */
    /* Under lock, or never changed. */
    const struct vocab_index *v;
    struct automaton a;
    struct grammar_cache c;
    struct grammar_work *w; /* NULL: none taken yet */
    struct grammar_state origin, *states; /* origin: the state of a new state, last in the list */
    uint32_t *path; /* configurations on the way down the trie */
    struct grammar_stats stats;
    /* The work of one call: steps that are left of those granted, whose limit that is, and why it ended early. */
    int64_t left, granted;
    uint64_t used_before; /* of the limit, when the call began */
    struct grammar_limit *limit;
    int rc;          /* the first failure; then every function below fails */
    enum { TOO_MANY_STEPS, TOO_MANY_BYTES, TOO_MANY_READINGS } why; /* rc -E2BIG */
};

/* Takes n steps. False: the work has to end, g->rc says why. */
bool charge_slow(struct grammar *g);
static inline bool charge(struct grammar *g, uint64_t n)
{
    g->left -= (int64_t)n;
    return g->left >= 0 || charge_slow(g);
}
/* Adds what was used to the limit's count, so that nothing is granted any more. */
void work_settle(struct grammar *g);
/* Tells the bytes that it holds now. */
void grammar_weigh(struct grammar *g);
/* The first failure stays; returns CONFIG_FAILED. */
uint32_t config_fail(struct grammar *g, int rc);
/* False: the cache has reached GRAMMAR_HARD_BYTES. */
bool cache_has_room(struct grammar *g);
/* Takes arrays for closures from a list that all grammars share, and gives them back. */
bool work_take(struct grammar *g);
void work_give(struct grammar *g);

int cache_create(struct grammar *g);
void cache_finish(struct grammar *g);
uint64_t cache_bytes(const struct grammar *g);
/* Forgets all but what the states stand on, and the masks there. -ENOMEM: as it was. */
int cache_renew(struct grammar *g);

/* The mask, or one that is equal and was there already; takes it over. NULL: failed. */
const uint64_t *mask_intern(struct grammar *g, uint64_t *mask);

/* Each returns a configuration, or CONFIG_FAILED. */
uint32_t config_start(struct grammar *g);
uint32_t config_step_slow(struct grammar *g, uint32_t c, uint8_t byte, bool literal);
uint32_t config_return(struct grammar *g, uint32_t frame);
uint32_t config_of_item(struct grammar *g, uint32_t state, uint32_t frame);
/* n items of c from its item `at` on, over FRAME_ANY in the place of their frame. */
uint32_t config_of_group(struct grammar *g, uint32_t c, uint32_t at, uint32_t n);
uint32_t config_token(struct grammar *g, uint32_t c, int32_t id); /* by edges over tokens alone */

static inline uint32_t config_step(struct grammar *g, uint32_t c, uint8_t byte)
{
    uint32_t row = g->c.config[c].row, to = row ? g->c.row[row + g->a.class_of[byte]] : CONFIG_UNKNOWN;
    return to != CONFIG_UNKNOWN ? to : config_step_slow(g, c, byte, false);
}

static inline uint32_t config_step_literal(struct grammar *g, uint32_t c, uint8_t byte)
{
    uint32_t row = g->c.config[c].literal_row, to = row ? g->c.row[row + g->a.class_of[byte]] : CONFIG_UNKNOWN;
    return to != CONFIG_UNKNOWN ? to : config_step_slow(g, c, byte, true);
}

/* Where the token leads from a configuration: CONFIG_DEAD where it may not come. */
uint32_t config_accept(struct grammar *g, uint32_t c, int32_t id);

/* ---- grammar_mask.c ---- */

const uint64_t *config_mask(struct grammar *g, uint32_t c);

#endif
