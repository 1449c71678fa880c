/* tools/gen/spirv_khr.c: SPIR-V of SPV_NV_cooperative_matrix, which the oldest glslc in use can make, as SPIR-V of
 * SPV_KHR_cooperative_matrix, which all drivers with matrices read. Standard input to standard output; a module without
 * cooperative matrices passes as it is.
 *
 *     NV                                              KHR
 *     type      component scope rows columns          ... and a use: A, B or accumulator, as its products take it
 *     load      pointer stride column-major [access]  pointer layout stride [access]; layout: 0 rows, 1 columns
 *     store     pointer object stride major [access]  pointer object layout stride [access]
 *     multiply  a b c                                 the same
 *     length    type                                  the same                                                    */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 0x07230203,
    OP_EXTENSION = 10, OP_CAPABILITY = 17, OP_TYPE_INT = 21, OP_CONSTANT_TRUE = 41, OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43, OP_SPEC_CONSTANT_OP = 52,
    NV_CAPABILITY = 5357, NV_TYPE, NV_LOAD, NV_STORE, NV_MUL_ADD, NV_LENGTH,
    KHR_TYPE = 4456, KHR_LOAD, KHR_STORE, KHR_MUL_ADD, KHR_LENGTH, KHR_CAPABILITY = 6022,
    USES = 3, MAX_WORDS = 1 << 20
};

struct id {
    uint32_t type; /* of a result; a cooperative matrix's own id for itself */
    uint8_t op;    /* OP_CONSTANT_TRUE, OP_CONSTANT_FALSE, or 0             */
    uint8_t use;   /* of a cooperative matrix: 1 + KHR's number, 0 unknown  */
};

static uint32_t in[MAX_WORDS], out[2 * MAX_WORDS], n_in, n_out;
static struct id *ids;

static void die(const char *why)
{
    fprintf(stderr, "spirv_khr: %s\n", why);
    exit(1);
}

static void put(uint32_t w)
{
    if (n_out == sizeof out / sizeof *out)
        die("module too long");
    out[n_out++] = w;
}
static void put_op(uint32_t op, uint32_t words) { put(words << 16 | op); }

static struct id *id(uint32_t i)
{
    if (i >= in[3])
        die("id out of bounds");
    return &ids[i];
}

static void set_use(uint32_t matrix, uint8_t use)
{
    struct id *t = id(id(matrix)->type);
    if (t->use && t->use != use)
        die("one type is used as two operands: give its sizes distinct constants");
    t->use = use;
}

/* What the instructions say of ids: `with` is called for each. */
static void each(void (*with)(uint32_t op, const uint32_t *w, uint32_t n))
{
    for (uint32_t i = 5; i < n_in;) {
        uint32_t n = in[i] >> 16;
        if (!n || n > n_in - i)
            die("an instruction runs past the end");
        with(in[i] & 0xffff, in + i, n);
        i += n;
    }
}

/* Only ids that a product takes matter: results of loads, products, constants and copies, all typed by their word 1. */
static void learn(uint32_t op, const uint32_t *w, uint32_t n)
{
    if (op == OP_CONSTANT_TRUE || op == OP_CONSTANT_FALSE)
        id(w[2])->op = (uint8_t)op;
    /* a first operand that is the id of a matrix type, and a second one not known yet: a type and its result */
    if (n >= 3 && w[1] < in[3] && w[2] < in[3] && ids[w[1]].type == w[1] && w[1] && !ids[w[2]].type)
        ids[w[2]].type = w[1];
    if (op == NV_TYPE)
        id(w[1])->type = w[1];
}
static void learn_uses(uint32_t op, const uint32_t *w, uint32_t n)
{
    if (op != NV_MUL_ADD || n != 6)
        return;
    set_use(w[3], 1);
    set_use(w[4], 2);
    set_use(w[5], 3);
}

static uint32_t uint_type, number; /* of 32 bits; its constant 0, then 1 and 2, once they are made */

static uint32_t layout_of(uint32_t major)
{
    uint8_t op = id(major)->op;
    if (!op || !number)
        die("a matrix's order is not a constant");
    return number + (op == OP_CONSTANT_TRUE);
}

static void rewrite(uint32_t op, const uint32_t *w, uint32_t n)
{
    switch (op) {
    case OP_CAPABILITY:
        put(w[0]);
        put(w[1] == NV_CAPABILITY ? KHR_CAPABILITY : w[1]);
        return;
    case OP_EXTENSION:
        if (strcmp((const char *)(w + 1), "SPV_NV_cooperative_matrix") == 0) {
            char name[28] = "SPV_KHR_cooperative_matrix";
            put_op(op, 1 + sizeof name / 4);
            for (uint32_t i = 0; i < sizeof name; i += 4) {
                uint32_t v;
                memcpy(&v, name + i, 4);
                put(v);
            }
            return;
        }
        break;
    case OP_TYPE_INT:
        if (w[2] == 32 && w[3] == 0)
            uint_type = w[1];
        break;
    case NV_TYPE:
        if (!number) {
            if (!uint_type)
                die("no type of unsigned integers before the first matrix");
            number = in[3];
            for (uint32_t i = 0; i < USES; i++) {
                put_op(OP_CONSTANT, 4);
                put(uint_type);
                put(number + i);
                put(i);
            }
        }
        if (!id(w[1])->use)
            die("a matrix type that no product uses");
        put_op(KHR_TYPE, 7);
        for (uint32_t i = 1; i < 6; i++)
            put(w[i]);
        put(number + id(w[1])->use - 1);
        return;
    case NV_LOAD: /* type result pointer stride major */
    case NV_STORE: { /* pointer object stride major */
        uint32_t at = op == NV_LOAD ? 4 : 3;
        put_op(op == NV_LOAD ? KHR_LOAD : KHR_STORE, n);
        for (uint32_t i = 1; i < at; i++)
            put(w[i]);
        put(layout_of(w[at + 1]));
        put(w[at]);
        for (uint32_t i = at + 2; i < n; i++)
            put(w[i]);
        return;
    }
    case NV_MUL_ADD:
    case NV_LENGTH:
        put_op(op == NV_LENGTH ? KHR_LENGTH : KHR_MUL_ADD, n);
        for (uint32_t i = 1; i < n; i++)
            put(w[i]);
        return;
    case OP_SPEC_CONSTANT_OP:
        for (uint32_t i = 0; i < n; i++)
            put(i == 3 && w[i] == NV_LENGTH ? KHR_LENGTH : w[i]);
        return;
    default: break;
    }
    for (uint32_t i = 0; i < n; i++)
        put(w[i]);
}

/* The module in `in` to one in `out`. */
static void convert(void)
{
    uint_type = number = 0;
    if (n_in < 5 || n_in == MAX_WORDS || in[0] != MAGIC)
        die("no SPIR-V module, or a longer one than expected");
    ids = calloc(in[3], sizeof *ids);
    if (!ids)
        die("memory");
    each(learn);
    each(learn_uses);
    memcpy(out, in, 20);
    n_out = 5;
    each(rewrite);
    if (number)
        out[3] += USES;
    free(ids);
}

int main(void)
{
    n_in = (uint32_t)fread(in, 4, MAX_WORDS, stdin);
    convert();
    return fwrite(out, 4, n_out, stdout) == n_out && fflush(stdout) == 0 ? 0 : 1;
}
