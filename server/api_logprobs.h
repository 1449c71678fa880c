/* server/api_logprobs.h
 * The probabilities of the tokens of one choice, in the form of chats or of completions. A token is listed once text
 * came out that it is part of: what only served a stop string, the reasoning or a call is dropped. */
#ifndef ZINC_SERVER_API_LOGPROBS_H
#define ZINC_SERVER_API_LOGPROBS_H

#include "engine/serve/sched.h"
#include "server/out.h"

struct api_logprobs {
    const struct engine *eng;
    bool wanted, legacy;             /* legacy: of /v1/completions                                       */
    uint32_t n_top;
    struct api_held {
        struct sched_token t;
        uint64_t at;                 /* legacy: where its text begins, in characters                     */
    } *held;                         /* [n_held] whose text has not come out yet                         */
    uint32_t n_held, cap;
    uint32_t n;                      /* listed since the last write                                      */
    struct out entries;              /* chat: of "content"; legacy: of "tokens"                          */
    struct out values, tops, offsets; /* legacy                                                          */
    uint64_t n_chars;                /* legacy: of the text so far                                       */
    struct out behind;               /* legacy: text of tokens that has not come out yet                 */
    uint64_t n_echo, at_echo;        /* legacy: characters of the prompt; of its tokens so far           */
    bool blank_dropped;              /* legacy: the prompt's first token has a blank that its text has not */
};

void api_logprobs_init(struct api_logprobs *l, const struct engine *eng, int32_t n_logprobs, bool legacy);
void api_logprobs_finish(struct api_logprobs *l);
void api_logprobs_token(struct api_logprobs *l, const struct sched_token *t);
/* Text came out: the tokens held belong to it. `first`: nothing came before, so that only tokens that reach into its n
 * bytes do. */
void api_logprobs_text(struct api_logprobs *l, const char *text, size_t n, bool first);
/* The text begins with the prompt's, and its tokens come one by one: the first has no probability. Legacy. */
void api_logprobs_echo(struct api_logprobs *l, const char *text, size_t n);
void api_logprobs_prompt(struct api_logprobs *l, const struct sched_token *t);
void api_logprobs_drop(struct api_logprobs *l);
/* Writes the object with what was listed since the last time, null when that is nothing. */
void api_logprobs_write(struct api_logprobs *l, struct out *o);

#endif
