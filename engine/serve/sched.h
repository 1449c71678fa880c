/* engine/serve/sched.h
 * Many requests on one engine. A scheduler owns the engine's thread: every round it evaluates one token for each
 * running request, all together, and at most one chunk of prompts, so that a long prompt holds up the others for no more
 * than a chunk. Requests wait in a bounded queue, taken in turn from each client. What a request generates does not
 * depend on what else runs. A grammar's masks are made between two rounds if that is soon done, else on threads of their
 * own (engine/grammar/grammar_pool.h); its request is left out of the rounds meanwhile, the others are not.
 *
 * A client may fill the queue as long as nobody else wants a place in it. When it is full, a newcomer whose client has
 * less there than another one (running and waiting, by two or more) takes the place of that client's youngest waiting
 * request, which ends as SCHED_REFUSED: nothing was made of it, and it is told when to come again. So one client alone
 * has all of the queue, which fixed shares would deny it, and many never wait for one that does not heed its refusals.
 *
 *     sched_create(eng, &o, &s, &e);
 *     sched_submit(s, &request, &job, &e);             any thread
 *     ... request.wake is called; sched_take(job, &out) gives text and tokens, until out.done
 *     sched_release(job);
 *     sched_drain(s, timeout); sched_destroy(s);
 *
 * All functions but create and destroy may be called from any thread. */
#ifndef ZINC_SERVE_SCHED_H
#define ZINC_SERVE_SCHED_H

#include "engine/generate.h"
#include "engine/grammar/grammar.h"
#include "engine/serve/kvpool.h"

struct sched;
struct sched_job;

struct sched_opts {
    uint32_t max_queue;      /* requests at most beside those that slots can run; 0: 1024, or 4 for each slot */
    uint64_t grammar_steps;  /* for the grammar of one request, all its tokens together; 0: 500 million      */
    uint32_t hold_bytes;     /* a request whose taker leaves more than this unread is paused; 0: 256 KiB     */
    uint32_t n_draft;        /* tokens that are guessed ahead for each request; its own gen.n_draft may be more */
    struct kvpool_opts kv;
};

enum { SCHED_MAX_LOGPROBS = 20 };

struct sched_request {
    const int32_t *prompt;   /* [n_prompt], copied                                                           */
    uint32_t n_prompt;
    const uint32_t *boundary; /* [n_boundary] where messages end, ascending, copied; may be NULL              */
    uint32_t n_boundary;
    struct gen_opts gen;     /* sampling, n_max, stop, ignore_eos, show_special, budget, guesses; callbacks are the scheduler's own */
    struct grammar *grammar; /* NULL: free. Takes a reference                                                */
    bool pool;               /* nothing is generated: its end brings the vector of the prompt (engines with pooling) */
    int32_t n_logprobs;      /* -1: none; 0..20: of the chosen token and of so many best ones                */
    bool tell_prompt;        /* with n_logprobs >= 0: the tokens of the prompt come too, before those that are chosen. All
                              * of it is evaluated, nothing reused                                           */
    uint64_t deadline_ns;    /* clock_ns() from which the request is ended; 0: none                          */
    uint64_t client;         /* requests of one client share its turns: a hash of key or address             */
    uint64_t owner;          /* prefixes are reused among prompts of one owner only: a key's number; 0: nobody's */
    /* A further part of something that was accepted before, of which nothing runs or waits just now: it is not refused
     * for a full queue, nor because the scheduler is draining. */
    bool goes_on;
    bool tell_start;         /* wakes also when its prompt begins to be evaluated                            */
    /* There is something to take, or the request ended. Called on the scheduler's thread, again only after a take that
     * emptied the job; must not block. */
    void (*wake)(void *user);
    void *user;
};

struct sched_token {
    int32_t id;
    bool of_prompt;          /* what the model expected there; the first has no top, and its logprob is NAN  */
    uint32_t text_end;       /* bytes of out.text up to and with what this token added                      */
    float logprob;           /* of the model's own distribution (no temperature, no cuts); with n_logprobs >= 0 */
    uint32_t n_top;
    struct sched_top { int32_t id; float logprob; } top[SCHED_MAX_LOGPROBS]; /* falling                      */
};

/* Why a request ended, beside gen_result.reason. */
enum sched_end {
    SCHED_RUNNING, SCHED_OK, SCHED_CANCELLED, SCHED_EXPIRED, SCHED_FAILED, SCHED_SHUTDOWN,
    SCHED_REFUSED,           /* gave its place in the full queue to another client's request                 */
    SCHED_TOO_COSTLY,        /* the request's own fault: its grammar takes more work than a token or an answer may,
                              * or (err.code -ENODATA) allows only what its logit_bias forbids               */
};

/* What was generated since the last take. The arrays belong to the job and live until its next take or release. */
struct sched_out {
    const char *text;        /* whole UTF-8 characters, NUL-terminated                                      */
    size_t n_text;
    const struct sched_token *tokens;
    uint32_t n_tokens;
    enum sched_end end;      /* SCHED_RUNNING: more will come                                                */
    bool started;            /* it has a slot, or had one                                                    */
    bool sure;               /* nobody is in its way: a slot was free for it when it came, and it starts with the next round */
    uint32_t n_evaluated;    /* of the prompt so far, what was reused included                               */
    struct gen_result result; /* when it ended                                                              */
    struct err err;          /* all others but SCHED_CANCELLED and SCHED_SHUTDOWN: the line to show          */
    const float *vector;     /* of a request with `pool`, when it ended well: [n_vector], as the model made it;
                                lives until the release                                                      */
    uint32_t retry_s;        /* SCHED_REFUSED: a guess at when to come again                                 */
    uint32_t n_reused;       /* prompt tokens that were not evaluated; from `started` on                     */
    uint64_t queued_ns, prompt_ns, decode_ns; /* waiting, until the first token, from there on              */
};

struct sched_stats {
    uint64_t requests, finished, cancelled, refused, failed, expired;
    uint64_t prompt_tokens, reused_tokens, generated_tokens;
    uint64_t rounds, steps;  /* rounds of the scheduler, submissions to the tier                            */
    uint64_t ahead;          /* of these, made before the host had the tokens of the one before             */
    uint64_t guessed, right; /* tokens that were guessed for requests that have ended, and those that were right */
    uint64_t step_ns, busy_ns; /* inside the tier; in rounds altogether: the difference is the scheduler's own */
    uint64_t sample_ns;      /* of that: choosing tokens                                                    */
    uint32_t running, waiting, slots;
    uint32_t reopened;       /* times that the device failed and the model was loaded again                 */
    bool failed_for_good;    /* it failed: every request will                                               */
    uint64_t queue_ns_sum, first_ns_sum; /* over requests that got their first token                        */
    struct kvpool_stats kv;
};

int sched_create(struct engine *eng, const struct sched_opts *o, struct sched **out, struct err *e);
/* No new requests from now on; waits until the running ones ended or `timeout_ns` passed, then ends the rest. Returns
 * how many were cut off. */
uint32_t sched_drain(struct sched *s, uint64_t timeout_ns);
void sched_destroy(struct sched *s); /* NULL is fine. All jobs must have been released */

/* -EBUSY: the queue is full (*retry_s: a guess at when to come again); -ESHUTDOWN: draining; -E2BIG: the prompt does not
 * fit the context; -ENOTSUP: `pool` is not what this engine does; -EINVAL: a token outside the vocabulary, a sampling parameter out of range; -ENOMEM. */
int sched_submit(struct sched *s, const struct sched_request *r, struct sched_job **out, uint32_t *retry_s,
                 struct err *e);
/* Would the request's prompt be taken at all? As sched_submit: -E2BIG, -EINVAL. */
int sched_check(const struct sched *s, const struct sched_request *r, struct err *e);
void sched_take(struct sched_job *j, struct sched_out *out);
/* Ends the request within one step; what it made so far can still be taken. */
void sched_cancel(struct sched_job *j);
/* The job is not used any more by the caller, finished or not (then it is cancelled). NULL is fine. wake is not called
 * after this returned. */
void sched_release(struct sched_job *j);

struct sched_stats sched_stats(const struct sched *s);

#endif
