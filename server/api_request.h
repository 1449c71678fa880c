/* server/api_request.h
 * The body of a request for text, checked and in the terms of engine/: nothing here touches the model. Fields are those
 * of OpenAI's API and what clients of llama.cpp's server and of vLLM send beside. Those that would change the answer and
 * cannot be honoured are refused by name (api_request_unsupported.c); unknown ones are ignored. */
#ifndef ZINC_SERVER_API_REQUEST_H
#define ZINC_SERVER_API_REQUEST_H

#include "engine/answer/answer.h"
#include "engine/serve/sched.h"
#include "server/api_fields.h"

/* What holds where the request says nothing, and limits. */
struct api_defaults {
    struct sampler_params sampling;
    int think;
    int32_t think_budget;
    uint32_t max_tokens;
    uint64_t timeout_ns;
    uint32_t max_n, n_vocab, n_vector; /* n_vector: numbers of a vector; 0: it makes none */
    struct api_names *names; /* of the model; NULL: any */
    /* The items of an earlier response, a new array; NULL: there is none, or it is gone. May be NULL. */
    json_t *(*previous)(void *user, const char *id);
    void *user;
};

enum {
    API_MAX_STOPS = 16, API_MAX_STOP_BYTES = 1024, API_MAX_BIASES = 4096, API_MAX_PROMPTS = 32,
    API_MAX_INPUTS = 2048,                                      /* of embeddings, documents: as OpenAI's API  */
    API_MAX_PAIR_BYTES = 32 << 20,                              /* of a query, with each of its documents     */
    API_MAX_EXTRA = 1024,                                       /* of /infill                                 */
    API_MAX_MESSAGES = 8192, API_MAX_CALLS = 256,               /* calls: of one message                      */
    API_MAX_CHOICES = 1024, API_MAX_CHOICE_BYTES = 64 << 10,    /* of guided_choice                           */
    API_MAX_REGEX_BYTES = 4 << 10,                              /* of guided_regex                            */
    API_MAX_LAST_N = 1 << 20,                                   /* repeat_last_n, dry_penalty_last_n: tokens  */
};

/* The names of the model (api_names.c). Strings are the creator's; any thread may ask. */
struct api_names;
/* NULL: out of memory. */
struct api_names *api_names_create(const char *name, const char *const *aliases, uint32_t n, bool strict);
void api_names_destroy(struct api_names *names); /* NULL is fine */
/* Is this the model's name or one of its aliases? "NAME:latest" is NAME, as Ollama's clients say it; "" is no other model. */
bool api_names_has(const struct api_names *names, const char *name);
/* 0, or 404 in *p where the names are strict and do not have it. Else a name that is none of them is logged once. */
int api_names_ask(struct api_names *names, const char *name, struct api_problem *p);
/* 404: always. */
int api_names_refuse(const struct api_names *names, const char *name, struct api_problem *p);

/* A file of the project, beside the one that is written. */
struct api_extra {
    const char *name, *text;
};

/* A prompt of /v1/completions. */
struct api_prompt {
    const char *text; /* NULL: ids */
    size_t n_text;
    int32_t *ids;
    uint32_t n_ids;
};

struct api_request {
    json_t *body;           /* strings below point into it, or are in `owned` */
    void **owned;
    uint32_t n_owned;

    struct sampler_params sampling;
    const char *stop[API_MAX_STOPS];
    uint32_t n_stop;
    uint32_t max_tokens;    /* 0: no limit                        */
    uint32_t n;             /* answers to each prompt             */
    int32_t n_logprobs;     /* as in sched_request                */
    uint64_t timeout_ns;
    bool ignore_eos, stream, include_usage;
    bool progress;          /* of the prompt, in a stream          */

    enum answer_format format;
    const char *schema;       /* as in answer_rules                 */
    const char *format_param; /* the field that asked for it        */
    bool strict;              /* of the schema                      */

    struct engine_message *messages; /* chat */
    uint32_t n_messages;
    bool continue_final;    /* the last message is the beginning of the answer */
    const char *tools;      /* JSON text; NULL: none, or none wanted */
    enum answer_tool_choice choice;
    const char *named;
    bool parallel;
    int think;
    int32_t think_budget;
    const char *effort;
    const char *predicted;  /* what the answer may be like; NULL: nobody says  */

    json_t *items;          /* responses: all that went before the answer */
    bool store;
    json_t *warnings;       /* lines for the client; NULL: none */

    struct api_prompt *prompts; /* completions */
    uint32_t n_prompts;
    bool only_prompt;       /* echo with max_tokens 0: nothing is generated (one token is, and dropped) */
    bool echo;
    const char *suffix;     /* what follows the answer, which stands between the prompt and it; NULL: nothing does */
    struct api_extra *extra; /* infill */
    uint32_t n_extra;
    bool pools;             /* embeddings, rerank: no answer, but a vector for each prompt */
    bool base64;            /* in which form it comes                              */
    bool cuts;              /* what is longer than the context may be cut          */
    uint32_t dimensions;    /* 0: all                                              */
    const char *query;      /* rerank: the prompts are documents                   */
    size_t n_query;
    uint32_t top_n;         /* 0: all                                              */
    bool return_documents, bare; /* bare: the results alone, as TEI has them       */
    const char *middle;     /* infill: how the answer begins, NULL: nobody says */
};

/* 0, or -EINVAL with *p. Either way api_request_finish frees what *r holds. */
int api_request_chat(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                     struct api_problem *p);
int api_request_completion(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                           struct api_problem *p);
/* Of Anthropic's API: POST /v1/messages, and of it what counts for /v1/messages/count_tokens. */
int api_request_anthropic(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                          struct api_problem *p);
int api_request_responses(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                          struct api_problem *p);
int api_request_infill(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                       struct api_problem *p);
int api_request_ollama_chat(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                            struct api_problem *p);
int api_request_ollama_generate(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                                struct api_problem *p);
/* Of vectors: POST /v1/embeddings, Ollama's /api/embed and /api/embeddings, and /v1/rerank. */
int api_request_embeddings(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                           struct api_problem *p);
int api_request_ollama_embed(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                             struct api_problem *p);
int api_request_rerank(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                       struct api_problem *p);
void api_request_finish(struct api_request *r);

/* An array of token ids. *ids is malloc'ed. */
int api_request_ids(const struct fields *f, const char *name, const json_t *array, uint32_t n_vocab, int32_t **ids,
                    uint32_t *n);

/* A text, or an array of token ids, as a prompt. */
int api_request_prompt(const struct fields *f, const char *name, const json_t *v, uint32_t n_vocab, struct api_prompt *out);

/* ---- between the files of the parser ---- */

/* Frees ptr with the request; NULL stands for a failed allocation. */
int api_request_own(struct api_request *r, void *ptr, struct api_problem *p);
int api_request_common(const struct api_defaults *d, const struct fields *f, struct api_request *r);
int api_request_format(const struct fields *f, struct api_request *r); /* response_format, json_schema, grammar  */
int api_request_guided(const struct fields *f, struct api_request *r); /* guided_json, structured_outputs, ...   */
int api_request_unsupported(const struct fields *f, bool chat);
int api_request_calls(const struct fields *f, struct api_request *r, struct engine_message *m); /* tool_calls */
int api_request_messages(const struct fields *f, struct api_request *r);
int api_request_tools(const struct fields *f, struct api_request *r);
/* `model`: 404 where the server is strict and that is none of its names. */
int api_request_model(const struct api_defaults *d, const struct fields *f);
/* What holds where the request says nothing. */
void api_request_begin(const struct api_defaults *d, struct api_request *r);
/* Sampling, model, timeout, stream: what all dialects have under these names. */
int api_request_sampling(const struct api_defaults *d, const struct fields *f, struct api_request *r);
/* Strings that end the answer, under this name. */
int api_request_stop(const struct fields *f, const char *name, struct api_request *r);
/* The limit of the answer, under this name. */
int api_request_limit(const struct fields *f, const char *name, struct api_request *r);
/* `verbosity`: nothing here makes answers longer or shorter, which r->warnings says. */
int api_request_verbosity(const struct fields *f, struct api_request *r);
/* A constraint by JSON schema that the field `param` (static) asked for. */
int api_request_schema(const struct fields *f, struct api_request *r, const char *param, const json_t *schema);
int api_request_effort(const struct fields *f, const char *name, struct api_request *r);
int api_request_missing(const struct fields *f, const char *name);

/* Tools of dialects where a tool is one object with `name`, `description`, `strict` and its schema in the field
 * `schema`: appended to `list` as OpenAI's chats have it. */
int api_request_tool_add(const struct fields *f, const char *schema, json_t *list);
bool api_request_has_tool(const json_t *tools, const char *name);
/* r->tools, where there are any and r->choice does not forbid them. */
int api_request_tools_set(const struct fields *f, const json_t *list, struct api_request *r);

/* A text in the making, of parts with an empty line or a line end between them; `own` hands it to the request. */
int api_request_text_add(const struct fields *f, struct tok_buf *b, const char *s, const char *between);
int api_request_text_own(const struct fields *f, struct tok_buf *b, struct api_request *r, const char **out);

#endif
