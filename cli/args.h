/* cli/args.h
 * Command lines by table. A command lists its options once; parsing, --help, "did you mean" and the messages fall out
 * of the table. Both --name VALUE and --name=VALUE parse; flags also as --no-name where the table says so. */
#ifndef ZINC_CLI_ARGS_H
#define ZINC_CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum opt_kind {
    OPT_FLAG,  /* bool                                                    */
    OPT_STR,   /* const char *                                            */
    OPT_I32, OPT_U32, OPT_F32, /* int32_t, uint32_t, float                */
    OPT_LIST,  /* struct str_list: may be given more than once            */
    OPT_TRI,   /* int: --name is 1, --no-name 0; the default is -1        */
};

struct str_list {
    const char **s;
    uint32_t n;
};

struct opt {
    const char *name;  /* without dashes                                       */
    char letter;       /* 0: none                                              */
    enum opt_kind kind;
    void *dest;
    const char *value; /* what stands for the value in help; NULL for flags    */
    const char *help;
    uint32_t *set_bits; /* when given, bit `set_bit` is set by the option       */
    uint32_t set_bit;
    double lo, hi;      /* numbers: what is accepted, both included; hi <= lo: whatever fits the type */
    const char *words;  /* strings: those accepted, "f16|f32|q8_0"; NULL: any. Whole numbers: one word that stands for 0 */
    /* Strings: ARGS_RUN, or an exit status after a message; `shown` is the option as it was written. */
    int (*check)(const char *shown, const char *value);
};

#define OPT(...) { __VA_ARGS__, NULL, 0, 0, 0, NULL, NULL } /* name to help */
#define OPT_RANGE(lo, hi, ...) { __VA_ARGS__, NULL, 0, lo, hi, NULL, NULL }
#define OPT_WORDS(words, ...) { __VA_ARGS__, NULL, 0, 0, 0, words, NULL }
#define OPT_CHECKED(check, ...) { __VA_ARGS__, NULL, 0, 0, 0, NULL, check }

struct opt_group {
    const char *title;
    const struct opt *opts; /* ends with name NULL */
};

struct command {
    const char *name;
    const char *summary;            /* one line                                      */
    const char *usage;              /* after "zinc NAME "                            */
    const char *about;              /* paragraphs and examples, before the options   */
    const struct opt_group *groups; /* ends with title NULL                          */
    const char *const *operands;    /* names of positional arguments, ends with NULL; the last may be
                                       "NAME...": any number; NULL: none */
    int (*main)(int argc, char **argv); /* gets what is left after the options       */
};

enum { ARGS_RUN = -1 }; /* go on */

/* Parses argv[1..argc) for `c`. ARGS_RUN: go on, *argc and argv[1..] are the operands; else the exit status: 0 after
 * --help, 2 after a message about the command line. */
int args_parse(const struct command *c, int *argc, char **argv);
void args_help(FILE *f, const struct command *c);
/* Prints text, from `column` on, in lines of at most 80 columns that continue at column `indent`; ends the line. */
void args_print_wrapped(FILE *f, const char *text, size_t column, size_t indent);
/* " [0.8]" for options of the sampling chain, whose defaults are in their variables; "" for others, whose help says it. */
const char *args_default(const struct opt *o, char buf[32]);
/* Sets the option of a table (ending with name NULL) as --NAME VALUE does. ARGS_RUN, or 2 after a message. */
int args_set(const struct opt *table, const char *name, const char *value);
/* The same for an option itself: `shown` stands for it in messages. */
int args_set_option(const struct opt *o, const char *shown, const char *value);

/* What args_parse has set, in its order. */
struct arg_given {
    const struct opt *o;
    const char *value; /* NULL: it takes none */
    bool negated;
};
const struct arg_given *args_given(uint32_t *n);

/* "zinc: ..." on stderr, for usage errors; returns 2. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *fmt, ...);

#endif
