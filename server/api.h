/* server/api.h
 * The API without HTTP: a request's path and body in, status and body out, whole or in pieces. http.c carries it over
 * sockets; tests drive it without any.
 *
 *     x = api_begin(api, &call);                 never fails: what is wrong with the request is an answer too
 *     while (!api_status(x)) wait for call.wake
 *     for (;;) n = api_read(x, buf, cap)         > 0: bytes; 0: none now, wait for call.wake; API_END: complete
 *     api_end(x);                                at any time; what still runs is cancelled
 *
 * An exchange belongs to one thread at a time; different ones may be used from different threads. */
#ifndef ZINC_SERVER_API_H
#define ZINC_SERVER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "engine/serve/sched.h"

/* Of Ollama's API: clients look whether the server is new enough for tools and thinking. */
#define API_OLLAMA_VERSION "0.12.0"

struct api;
struct budget;
struct api_exchange;

struct api_opts {
    struct engine *eng;
    struct sched *sched;
    const char *model_name;          /* as /v1/models tells it; NULL: the file's label                      */
    const char *const *aliases;      /* further names that requests may ask for; in one, * stands for any text. Not copied */
    uint32_t n_aliases;
    bool strict_model;               /* a request for another name is 404, else it is served and logged once */
    struct sampler_params sampling;  /* defaults of the server, over the file's own                        */
    int think;                       /* default of enable_thinking: -1: the model's                        */
    int32_t think_budget;            /* tokens of reasoning at most; -1: no limit                           */
    uint32_t max_tokens;             /* limit of an answer when the request gives none; 0: the context     */
    uint64_t timeout_ns;             /* of a request when it gives none; 0: none                            */
    uint32_t max_n;                  /* of `n`; 0: 8                                                        */
    struct budget *budget;           /* of what requests hold; NULL: no limit                               */
};

int api_create(const struct api_opts *o, struct api **out, struct err *e);
void api_destroy(struct api *a); /* NULL is fine */

struct api_call {
    const char *method, *path;       /* path without query                                                  */
    const char *query;               /* what follows ?, as it came; NULL: nothing                           */
    const char *body;                /* must live until api_begin returns                                  */
    size_t n_body;
    const char *id;                  /* of the request, for logs and ids of answers                         */
    uint64_t client;                 /* fairness: see sched_request                                         */
    uint64_t owner;                  /* of prefixes: a key's number; 0: no keys                              */
    const char *peer;                /* address, for who hands the call on; NULL: unknown                    */
    void (*wake)(void *user);        /* on the scheduler's thread, maybe before api_begin returned          */
    void *user;
};

enum { API_GET = 1, API_POST = 2, API_DELETE = 4 };
static inline unsigned api_method(const char *name) /* HEAD is GET; 0: another one */
{
    return strcmp(name, "GET") == 0 || strcmp(name, "HEAD") == 0 ? API_GET
           : strcmp(name, "POST") == 0                           ? API_POST
           : strcmp(name, "DELETE") == 0                         ? API_DELETE
                                                                 : 0;
}

/* Is there an endpoint at this path? 0: none; else a set of the methods it takes, and *label (may be NULL): the path as
 * metrics have it, one of a set that no client can make larger. */
unsigned api_methods(const char *path, const char **label);
/* The endpoints: the path of number i, NULL behind the last. Those below /v1 are there without /v1 too. */
const char *api_endpoint(size_t i);

/* NULL: out of memory. */
struct api_exchange *api_begin(struct api *a, const struct api_call *c);

int api_status(struct api_exchange *x);               /* HTTP status; 0: not known yet                      */
const char *api_content_type(struct api_exchange *x);
bool api_streams(struct api_exchange *x);             /* what follows is made while it is read              */
size_t api_length(struct api_exchange *x);            /* bytes still to be read; of no meaning in streams   */
/* Nothing was sent for quiet_ns, and there is nothing to read: true if there is now, or if the status is known now, for
 * no other reason than that the client should not give up. Streams then begin, or have a comment or an event that says
 * nothing; a whole answer begins with blanks, and if it fails later it says why and breaks off. */
bool api_keep_alive(struct api_exchange *x, uint64_t quiet_ns);
uint32_t api_retry_after(struct api_exchange *x);     /* seconds, with status 429 and 503; 0: none           */
enum { API_END = -1, API_CUT = -2 };                  /* CUT: it breaks off, there was no memory for more   */
ssize_t api_read(struct api_exchange *x, char *buf, size_t cap);
/* For the log: "stop", tokens and times of what ran. */
struct api_usage {
    uint32_t prompt_tokens, reused_tokens, generated_tokens;
    uint64_t queued_ns, prompt_ns, decode_ns;
    const char *reason;              /* static; NULL: nothing was generated                                 */
    bool logged;                     /* who has answered has written the line for the log                    */
};
struct api_usage api_usage(struct api_exchange *x);
void api_end(struct api_exchange *x); /* NULL is fine */

/* An error as the clients of this path read it, malloc'ed: OpenAI's {"error":{"message":..,"type":..,"param":..,"code":..}}
 * where the path (NULL: none) is not one of another API. NULL: out of memory. */
char *api_error_json(const char *path, int status, const char *param, const char *code, const char *message);

#endif
