/* engine/serve/sched_impl.h: the objects behind sched.h. sched.c has what callers use and the life of a job,
 * sched_round.c what the scheduler's thread does with them. */
#ifndef ZINC_SERVE_SCHED_IMPL_H
#define ZINC_SERVE_SCHED_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "engine/grammar/grammar_pool.h"
#include "engine/priv.h"
#include "engine/serve/row_crew.h"
#include "engine/serve/sched.h"
#include "engine/serve/step_cost.h"

enum job_state { JOB_WAITING, JOB_FETCHING, JOB_PROMPT, JOB_RUNNING, JOB_ENDED }; /* fetching: from disk */

/* Text and tokens on their way to the taker. */
struct job_out {
    char *text;
    size_t n_text, cap_text;
    struct sched_token *tok;
    uint32_t n_tok, cap_tok;
};

struct sched_job {
    struct sched *s;
    struct sched_job *next;      /* in the queue                                              */
    atomic_uint refs;            /* the caller's and the scheduler's                          */
    int32_t *prompt;
    uint32_t n_prompt, n_boundary;
    uint32_t *boundary;
    struct gen *gen;             /* NULL: with `pool`                                         */
    bool pool;
    float *vector;               /* pool: [n_vector]                                          */
    double *sum;                 /* pool by the mean: [n_vector]                              */
    int32_t n_logprobs;
    bool tell_prompt;            /* see sched_request                                         */
    uint64_t deadline_ns, client, owner, turn; /* turn: who is next in the queue, see sched.c         */
    uint32_t n_draft, n_predicted;
    int32_t *predicted;          /* [n_predicted]                                             */
    bool goes_on;                /* see sched_request                                         */
    bool pushed_out;             /* waits for its end: another client has its place; s->lock  */
    uint32_t retry_s;
    /* The scheduler's thread only. */
    enum job_state state;
    struct session *session;
    struct sched_token likely[DRAFT_MOST + 1]; /* by row of its part: what is known of the token chosen there, id -1: nothing */
    uint32_t at_row;             /* of these, that the next token is chosen from              */
    int32_t pending;             /* JOB_RUNNING: chosen, not yet evaluated                    */
    bool by_hand;                /* the host makes the next choice, whatever the device could */
    struct draft *draft;         /* NULL: nothing is guessed                                  */
    int32_t guess[DRAFT_MOST + 1]; /* of the step in the making: `pending`, and what may follow */
    struct grammar_task *mask;   /* its next mask is being made elsewhere; NULL: it is there  */
    uint64_t mask_steps;         /* of its grammar, so far                                    */
    uint64_t came_ns, began_ns, first_ns;
    bool news;                   /* something was made since the last wake                    */
    /* Shared with the taker. */
    atomic_bool cancel;
    atomic_bool started;         /* from then on n_reused stays                               */
    atomic_uint n_reused, n_evaluated; /* of the prompt                                       */
    bool sure;                   /* written before anybody knows the job                */
    bool tell_start;
    pthread_mutex_t lock;
    struct job_out made, taken;  /* `taken` is the taker's                                    */
    bool woken, paused;          /* woken: and not yet taken                                  */
    enum sched_end end;
    struct gen_result result;
    struct err err;
    uint64_t ended_ns;
    /* Held while wake is called, so that a released job is never woken. */
    pthread_mutex_t wake_lock;
    void (*wake)(void *user);
    void *user;
};

/* Who has requests here. */
struct sched_client {
    uint64_t id;
    uint32_t n_live, n_waiting;  /* what was pushed out is neither                            */
};

/* A run of rows of one job in a step. */
struct part {
    struct sched_job *job;       /* NULL: it ended meanwhile                                  */
    const int32_t *tok;
    uint32_t n;
    bool prompt, out;            /* out: its last row gives the next token                    */
    uint32_t n_guess;            /* with `out`: and so many more rows, guesses, give those after it */
    uint32_t n_pooled;           /* rows that are outputs, of a job with `pool`               */
    uint32_t n_told;             /* rows whose logits tell of the prompt's next token; before `out`'s */
    bool on_device;
};

/* A step of running jobs, each one row and one output, that was submitted and not waited for. */
struct sched_flight {
    struct engine_flight step;
    struct part *part;           /* [n_slots]                                                 */
    uint32_t n;                  /* 0: there is none                                          */
};

/* An output that the host looks at: that of the part's row i, counted from the one of its newest token. */
struct sched_row {
    const struct part *part;
    uint32_t out, i;
};

struct sched {
    struct engine *eng;
    struct sched_opts o;
    struct kvpool *pool;
    struct grammar_pool *masks;
    pthread_t thread;
    bool started;
    pthread_t self;              /* of the scheduler's thread, from its beginning on          */
    /* The scheduler's thread only. */
    struct sched_job **run;      /* [n_run] jobs that have a slot, at most n_slots            */
    uint32_t n_run;
    ka_sample *how;              /* [out capacity]                                            */
    int32_t *chosen;             /* [out capacity]                                            */
    struct part *part;           /* [n_slots] of the step in the making                       */
    struct sched_flight flight, behind; /* the step under way, and while that lands the one after it */
    uint32_t *ahead_of;          /* [n_slots] by output of the step under way: its row behind */
    uint64_t landed_ns;          /* when the newest step of those landed                      */
    struct sched_job **order;    /* [n_slots] for sorting                                     */
    struct row_crew *crew;
    struct sched_row *row;       /* [out capacity] of the step                                */
    struct step_cost cost;       /* of steps with prompts                                     */
    double pace_ns;              /* of steps without them, lately; 0: there were none         */
    uint64_t global_turn;
    uint64_t rest_ns;            /* without requests for so long, the tier rests; 0: never    */
    bool rested;
    bool lost;                   /* the device failed, and can be brought back                */
    uint32_t n_lost;             /* so many times since a request ended well                  */
    uint64_t mask_left;          /* steps for masks that this round may still take itself     */
    /* Shared. */
    pthread_mutex_t lock;
    double job_ns;               /* what a request takes                                      */
    pthread_cond_t work, idle;   /* something to do; nothing left to do                       */
    struct sched_job *queue, **queue_end;
    uint32_t n_queue;            /* that wait, without those that were pushed out             */
    uint32_t n_live, n_pushed;   /* that have not ended; of these, pushed out                 */
    struct sched_client *client; /* [n_clients] with n_live > 0                               */
    uint32_t n_clients, cap_clients;
    bool draining, stopping, quit, faulted, poked;
    struct sched_stats st;
};

/* A step in the making. */
struct sched_batch {
    struct sched *s;
    struct part *part;           /* [n_parts], the scheduler's                                */
    uint32_t n_parts, n_rows, n_out, n_prompt_rows;
    uint32_t row_cap, out_cap;
    bool wants_logits, wants_next;
    int rc;                      /* the device failed                                         */
    struct err err;
};

/* One round: evaluates what can be evaluated. False: there was nothing to do. */
bool sched_round(struct sched *s);
/* The next token of a job that got output row i_out, by s->chosen where the device made the choice. logits: of the step's outputs,
 * or NULL. ahead: its evaluation is submitted, and counted in the session's position. */
bool sched_choose(struct sched *s, const struct part *p, uint32_t i_out, const float *logits, bool ahead); /* false: it has ended */
/* The model's own distribution at a token, and its likeliest n_top ones: log softmax of the logits as they are. */
void sched_log_probabilities(struct sched_token *t, const float *logits, uint32_t n_vocab, uint32_t n_top);
/* All that sched_choose will need of the logits, which then takes it, a row each on the crew's threads: the choice of a part's first
 * row, and probabilities of all rows whose tokens are known or guessed. logits NULL: nothing. */
void sched_look_at_rows(const struct sched_batch *b, const float *logits);
void sched_count_step(struct sched *s, uint64_t step_ns, uint64_t sample_ns, uint32_t n_prompt, uint32_t n_chosen, bool ahead);
/* Has the taker left so much unread that the job has to wait for it? */
bool sched_is_held(struct sched_job *j);

/* ---- guesses (sched_draft.c) ---- */

/* A job has a slot. */
void sched_draft_begin(struct sched *s, struct sched_job *j);
/* What may come after a running job's newest token, as far as its grammar allows it: guess [DRAFT_MOST], at most `room`, in a step
 * that has `others` rows beside. */
uint32_t sched_guess(struct sched *s, struct sched_job *j, uint32_t others, uint32_t room, int32_t *guess);
/* The next tokens of a part with guesses, whose outputs are from i_out on: as many as hold, and one. Returns how many. */
uint32_t sched_choose_rows(struct sched *s, const struct part *p, uint32_t i_out, const float *logits);

/* ---- steps in flight (sched_ahead.c) ---- */

/* May the batch, of one row for each running job, be submitted and not waited for? */
bool sched_takes_off(struct sched *s, const struct sched_batch *b);
int sched_take_off(struct sched *s, const struct sched_batch *b, struct err *e);
/* Is a step under way, and may the next one follow before its tokens are known? Then sched_fly_on submits that and takes
 * the tokens; sched_land takes them alone. */
bool sched_flies_on(struct sched *s);
void sched_fly_on(struct sched *s);
bool sched_land(struct sched *s); /* false: the device failed */
void sched_forget_flights(struct sched *s, const struct sched_job *j); /* what the job still gets is not wanted */

/* What belongs to the scheduler's thread is used by it alone: grammars' states above all. */
static inline void sched_check_owner(const struct sched *s)
{
#ifdef ZINC_DEBUG_CHECKS
    CHECK(pthread_equal(pthread_self(), s->self));
#else
    (void)s;
#endif
}

/* The device failed: every job that has a slot ends. */
void sched_device_failed(struct sched *s, const struct err *e);

/* Has the mask for the job's next token made, now or elsewhere. false: that was the job's end. */
bool sched_prepare_mask(struct sched *s, struct sched_job *j);
/* Ends a job that has a slot, or (state JOB_WAITING) one that was taken out of the queue. */
void sched_end_job(struct sched *s, struct sched_job *j, enum sched_end why, const struct err *e);
/* ---- the prompt's own tokens (sched_prompt.c) ---- */

/* A job with tell_prompt has a slot: its prompt is evaluated from the start, and its first token told. -ENOMEM. */
int sched_prompt_begin(struct sched *s, struct sched_job *j, struct err *e);
/* How many of a part's rows have their logits looked at for that. */
uint32_t sched_prompt_rows(const struct part *p);
/* The logits of those rows, f32 [p->n_told, n_vocab]. -ENOMEM. */
int sched_prompt_take(struct sched *s, const struct part *p, const float *logits, struct err *e);
/* The next token, for the taker. -ENOMEM. */
int sched_tell(struct sched_job *j, struct sched_token t);

/* ---- requests for vectors (sched_pool.c) ---- */

/* Room for its vector. -ENOMEM. */
int sched_pool_create(struct sched_job *j, struct err *e);
/* It has a slot: what it cannot reuse is given up. */
void sched_pool_begin(struct sched *s, struct sched_job *j);
/* Of the rows [pos, pos + n) of its prompt, which are outputs: *first, relative to pos, and how many. */
uint32_t sched_pool_rows(const struct sched_job *j, uint32_t pos, uint32_t n, uint32_t *first);
/* Those outputs, v [n_out, n_vector]. True: that was its end. */
bool sched_pool_take(struct sched *s, struct sched_job *j, const float *v, uint32_t n_out);

/* Tells the taker that there is something, if it does not know yet. */
void sched_notify(struct sched_job *j);

#endif
