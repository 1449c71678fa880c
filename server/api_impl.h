/* server/api_impl.h
 * What the files of the API share. An exchange is an answer in the making. Most are complete when api_begin returns;
 * those that generate (api_run.c) have choices, each with a job of the scheduler, and a form that tells how the
 * endpoint writes them: a chat (api_chat.c) or a completion (api_completion.c). */
#ifndef ZINC_SERVER_API_IMPL_H
#define ZINC_SERVER_API_IMPL_H

#include <pthread.h>

#include "server/api.h"
#include "server/api_logprobs.h"
#include "server/api_request.h"
#include "server/out.h"

struct api {
    struct api_opts o;
    struct api_defaults defaults;
    char *name;              /* of the model, in answers                    */
    char fingerprint[64];    /* system_fingerprint                          */
    int64_t created;
    bool has_tools, can_infill; /* the chat format has calls; the vocabulary has tokens for a middle */
    pthread_mutex_t lock;    /* of what follows                             */
    struct api_stored *stored;    /* the newest first                */
    uint64_t stored_bytes;
    struct api_grammar *grammars; /* in use, or kept: the newest first      */
};

/* The compiled grammar of this text, from the cache if it is there: *g is a reference of the caller's, who ends it with
 * api_grammar_done. -EBUSY: no memory for it now. */
int api_grammar(struct api *a, const char *text, size_t n, struct grammar **g, struct err *e);
void api_grammar_done(struct api *a, struct grammar *g); /* NULL is fine */
/* Gives up those that nobody uses until `bytes` are free; returns how many were freed. */
uint64_t api_grammars_drop(struct api *a, uint64_t bytes);
void api_grammars_finish(struct api *a);

/* For each byte of a request: its prompt, as text and as tokens of one byte. */
enum { API_PROMPT_BYTES = 16 };

/* Responses that others go on from (api_store.c): kept as far as there is room. `text`: a JSON array of items, of which the
 * first n_input were given; `whole`: the response. */
void api_store_put(struct api *a, uint64_t owner, const char *id, const struct out *text, uint32_t n_input,
                   const struct out *whole);
/* Its items, the caller's. The exchange, whose owner it must be, holds what they weigh. -ENOENT: it is not there; -ENOMEM. */
int api_stored_items(struct api_exchange *x, const char *id, json_t **items, uint32_t *n_input);
json_t *api_previous_items(void *user, const char *id); /* for api_defaults.previous; user: an exchange */
/* -ENOENT: it is not there. */
int api_store_get(struct api *a, uint64_t owner, const char *id, struct out *o);
int api_store_remove(struct api *a, uint64_t owner, const char *id);
uint64_t api_store_drop(struct api *a, uint64_t bytes); /* returns how many were freed */
void api_store_finish(struct api *a);

enum api_part { API_NO_PART, API_CONTENT, API_REASONING, API_ARGUMENTS };

/* One answer of an exchange. */
struct api_choice {
    struct api_exchange *x;
    uint32_t index;
    const struct engine_prompt *prompt;
    struct sched_job *job;
    const char *finish;      /* "stop", "length" or "tool_calls"; NULL while it runs */
    struct api_logprobs logprobs;
    struct out text;         /* inside of a JSON string: stream: of `part`, since the last event; else all of it */
    /* chat: api_parts.c */
    struct answer *answer;
    enum api_part part;      /* what is being said                          */
    uint32_t call;           /* the newest one's index                      */
    uint32_t n_evaluated;    /* of the prompt, so far                       */
    bool cut, said;          /* a call has no end; there is content         */
    bool resuming;           /* what comes was said in the request          */
    struct out parts[4];     /* the form's own: what was said, as it keeps it */
    struct out args;         /* the form's own: of a call in the making    */
    size_t mark;             /* the form's own: where the part began       */
    uint32_t n_parts;        /* that ended: the index of the one being said */
    bool opened;             /* form->open was called                       */
    bool begun;              /* stream: the first event was written         */
    double score;            /* rerank: of its document                     */
    /* when it ended */
    struct gen_result result;
    uint32_t n_reused;       /* known before it ends                        */
    uint64_t queued_ns, prompt_ns, decode_ns;
};

/* How an endpoint writes what its choices generate. Functions return 0 or a negative errno; those marked * may be
 * NULL. */
struct api_form {
    const char *stream_type; /* of media, of a stream */
    void (*start)(struct api_exchange *x, const struct api_call *c); /* * before all others: what its texts begin with */
    int (*open)(struct api_choice *c, struct err *e);
    void (*begin)(struct api_choice *c);    /* * stream: the first events */
    /* Text came, by a token or (NULL) at the end. */
    int (*put)(struct api_choice *c, const struct sched_token *t, const char *text, size_t n);
    int (*close)(struct api_choice *c);     /* no more will come: what is held back is put; may change c->finish */
    void (*flush)(struct api_choice *c);    /* stream: what came since the last event, as one                    */
    void (*last)(struct api_choice *c);     /* stream: the event that tells why the choice ended                 */
    void (*end)(struct api_exchange *x);    /* stream: after all choices                                         */
    void (*whole)(struct api_exchange *x);  /* the complete answer                                               */
    void (*broken)(struct api_exchange *x, const struct api_problem *p); /* stream: an error ends it             */
    void (*ping)(struct api_exchange *x);   /* stream: nothing came for a while                                  */
    void (*destroy)(struct api_choice *c);  /* * */
    const struct api_part_form *parts;      /* of chats */
};

/* How a chat's parts are written (api_parts.c): a part begins, its text comes, it ends; then the next one. The part is
 * c->part, c->call counts the calls. */
struct api_part_form {
    void (*begin)(struct api_choice *c, const char *name);  /* * name: of a call */
    void (*text)(struct api_choice *c);                     /* stream: c->text, which is never empty, as an event */
    /* c->text: what no event had: all of it in a whole answer. complete: the call has an end; of other parts true. */
    void (*end)(struct api_choice *c, bool complete);       /* * */
};

struct api_exchange {
    struct api *api;
    bool lacked_memory;      /* for what it asked for: an answer that it is not there would be wrong */
    unsigned json_failures;  /* of this thread when the request came: more of them since, and it was not read rightly */
    int status;
    uint32_t retry_after;
    bool streams, complete;  /* complete: after `out` nothing comes          */
    bool trickles;           /* a whole answer whose head went before it was there */
    bool cut;                /* and then it failed: it breaks off after `out` */
    struct out out;          /* what is to be read, from `sent` on           */
    size_t sent;
    uint64_t held;           /* taken from the budget: the parsed request    */
    /* Writes some more to `out`, or completes; NULL: choices do that. For answers that are too large to be held. */
    int (*more)(struct api_exchange *x);
    int32_t *ids;            /* of api_text.c, with their place              */
    uint32_t n_ids, at_id;
    bool pieces;
    /* generation; form NULL: none */
    const struct api_form *form;
    void (*problem)(const struct api_problem *p, struct out *o); /* writes errors as the dialect has them */
    struct api_request r;
    struct engine_prompt *prompts;
    uint32_t n_prompts;
    struct grammar *grammar;
    json_t *warnings;        /* lines for the client; NULL: none             */
    struct api_choice *choices;
    uint32_t n_choices, n_ended;
    uint32_t n_live;         /* choices that have a job                      */
    bool started;            /* one of them has had a slot                   */
    struct gen_opts base;    /* what their jobs have in common               */
    uint64_t client, owner, began_ns, deadline_ns;
    void (*wake)(void *user);
    void *user;
    struct out head;         /* what all events begin with                   */
    bool generates;          /* Ollama: it is /api/generate                  */
    uint32_t sequence;       /* of events, the form's own                    */
    uint64_t nonce;          /* in the ids of calls                          */
    struct api_usage usage;
    int (*vector)(struct api_choice *c, const float *v, uint32_t n); /* with r.pools: takes what the model made of its prompt */
    uint32_t n_thought;      /* tokens of reasoning, of all choices; when all ended */
    uint32_t n_guessed, n_right; /* tokens that were guessed, and those that were right; likewise */
    char id[160];            /* of the call, or made                         */
};

/* ---- complete answers ---- */

/* out holds the answer. */
void api_answer(struct api_exchange *x, int status);
void api_fail(struct api_exchange *x, const struct api_problem *p);
/* Writes {"error":{..}}. */
void api_problem_write(const struct api_problem *p, struct out *o);
void api_ollama_problem(const struct api_problem *p, struct out *o);
void api_anthropic_problem(const struct api_problem *p, struct out *o);
/* A failure of the engine (or of its text functions) as a problem; `param` may be NULL. */
void api_problem_of(int rc, const struct err *e, const char *param, struct api_problem *p);

/* ---- endpoints: each answers, or starts generating ---- */

void api_chat(struct api_exchange *x, const struct api_call *c);
void api_messages(struct api_exchange *x, const struct api_call *c);
void api_infill(struct api_exchange *x, const struct api_call *c);
void api_props(struct api_exchange *x, const struct api_call *c);
void api_slots(struct api_exchange *x, const struct api_call *c);
void api_apply_template(struct api_exchange *x, const struct api_call *c);
void api_ollama_chat(struct api_exchange *x, const struct api_call *c);
void api_ollama_generate(struct api_exchange *x, const struct api_call *c);
void api_ollama_tags(struct api_exchange *x, const struct api_call *c);
void api_ollama_ps(struct api_exchange *x, const struct api_call *c);
void api_ollama_version(struct api_exchange *x, const struct api_call *c);
void api_ollama_show(struct api_exchange *x, const struct api_call *c);
void api_ollama_embed(struct api_exchange *x, const struct api_call *c);
void api_ollama_embeddings(struct api_exchange *x, const struct api_call *c);
void api_rerank(struct api_exchange *x, const struct api_call *c);
void api_responses(struct api_exchange *x, const struct api_call *c);
/* part: "input_items"; NULL: the response itself. */
void api_response_stored(struct api_exchange *x, const char *id, const char *part, const struct api_call *c);
void api_count_tokens(struct api_exchange *x, const struct api_call *c);
void api_completion(struct api_exchange *x, const struct api_call *c);
void api_embeddings(struct api_exchange *x, const struct api_call *c);
void api_models(struct api_exchange *x, const struct api_call *c);
void api_model(struct api_exchange *x, const char *id);
void api_tokenize(struct api_exchange *x, const struct api_call *c);
void api_detokenize(struct api_exchange *x, const struct api_call *c);

/* Answers with what `fn` writes for this body. */
void api_answer_with(struct api_exchange *x, const struct api_call *c,
                     int (*fn)(struct api_exchange *x, const json_t *body, struct api_problem *p));
/* The prompt for what stands between `before` and r->suffix. -ENOTSUP: the vocabulary has no tokens for it. */
int api_infill_prompt(const struct engine *eng, const struct api_request *r, const char *before, struct engine_prompt *p,
                      struct err *e);
bool api_can_infill(const struct engine *eng);
/* Text or ids as they stand, as a prompt. */
int api_plain_prompt(const struct engine *eng, const struct api_prompt *p, struct engine_prompt *out, struct err *e);

/* ---- generation ---- */

/* x->r, x->prompts and x->grammar are there: submits, or fails. A request with many choices is one request: it is
 * accepted when the queue takes the first of them, the others follow as there is room. `base`: what x->r does not
 * tell. */
void api_run(struct api_exchange *x, const struct api_call *c, const struct api_form *form,
             const struct gen_opts *base);
void api_pump(struct api_exchange *x); /* takes what there is */
/* For api_keep_alive: writes a sign of life where it is time for one. */
bool api_run_sign(struct api_exchange *x, uint64_t quiet_ns);
void api_run_finish(struct api_exchange *x);

/* ---- chats: what the model says, taken apart (api_parts.c) ---- */

typedef int api_reader(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                       struct api_problem *p);
/* Reads the request by `read`, makes its prompt and its grammar, and runs; form->parts is asked. */
void api_converse(struct api_exchange *x, const struct api_call *c, api_reader *read, const struct api_form *form);
/* In steps: x->r, then x->prompts, each 0 or -EINVAL and the like with *p; then all that is left, which answers. A request
 * with a prompt in the place of messages is continued as it stands: all of it is content. */
int api_converse_read(struct api_exchange *x, const struct api_call *c, api_reader *read, struct api_problem *p);
int api_converse_prompt(struct api_exchange *x, struct api_problem *p);
void api_converse_on(struct api_exchange *x, const struct api_call *c, const struct api_form *form);
/* Has the chat format calls of tools? */
bool api_has_tools(const struct engine *eng);
/* For forms. */
int api_parts_open(struct api_choice *c, struct err *e);
int api_parts_put(struct api_choice *c, const struct sched_token *t, const char *text, size_t n);
int api_parts_close(struct api_choice *c);
void api_parts_flush(struct api_choice *c);
void api_parts_destroy(struct api_choice *c);
/* c->text as the inside of a JSON string: a call's arguments are kept as they are, all else is escaped already. */
void api_parts_text(const struct api_choice *c, struct out *o);
/* "prefix" and 20 digits that no other call of this server has. */
void api_call_id(const struct api_choice *c, const char *prefix, struct out *o);

/* ---- what OpenAI's chats and completions have in common (api_openai.c) ---- */

/* x->head: what all its texts begin with. */
void api_openai_start(struct api_exchange *x, const char *prefix, const char *object);
/* An event with one choice: {"index":i, and then what the caller writes, }. */
struct out *api_event_begin(struct api_choice *c);
void api_event_end(struct api_choice *c);
/* Its last event; `inside` writes what the choice has in it. */
void api_openai_last(struct api_choice *c, const char *inside);
void api_openai_end(struct api_exchange *x);
void api_openai_whole(struct api_exchange *x, void (*one)(struct api_choice *c));
/* Progress as a comment, which parsers of event streams pass over. */
void api_comment(struct api_exchange *x);
/* ,"timings":{..} as llama.cpp's server tells them; the first token belongs to the prompt's time. */
void api_write_timings(struct out *o, const struct api_usage *u);
void api_openai_ping(struct api_exchange *x);
void api_openai_broken(struct api_exchange *x, const struct api_problem *p);
/* ,"warnings":[..] where something was passed over in the request. */
void api_write_warnings(const struct api_exchange *x, struct out *o);

#endif
