/* Requests that ask what the model expected where each token of their prompt stands: every row of such a prompt is an
 * output, and the logits of one tell of the token behind it. */
#include <math.h>

#include "engine/serve/sched_impl.h"

/* What comes from the cache has no logits. */
int sched_prompt_begin(struct sched *s, struct sched_job *j, struct err *e)
{
    if (j->session->pos) {
        session_truncate(j->session, 0, NULL);
        kvpool_extend(s->pool, j->session, false);
    }
    return sched_tell(j, (struct sched_token){ .id = j->prompt[0], .of_prompt = true, .logprob = NAN })
               ? err_set(e, -ENOMEM, "scheduler: out of memory for the tokens of a prompt")
               : 0;
}

uint32_t sched_prompt_rows(const struct part *p)
{
    return p->prompt && p->job->tell_prompt ? p->n - p->out : 0;
}

int sched_prompt_take(struct sched *s, const struct part *p, const float *logits, struct err *e)
{
    struct sched_job *j = p->job;
    uint32_t n_vocab = s->eng->info.n_vocab;
    int rc = 0;
    for (uint32_t i = 0; i < p->n_told && !rc; i++) {
        struct sched_token t = { .id = p->tok[i + 1], .of_prompt = true };
        sched_log_probabilities(&t, logits + (size_t)i * n_vocab, n_vocab, (uint32_t)j->n_logprobs);
        rc = sched_tell(j, t);
    }
    j->news |= p->n_told > 0;
    return rc ? err_set(e, rc, "scheduler: out of memory for the tokens of a prompt") : 0;
}
