/* What of choosing tokens looks at whole vocabularies: on the crew's threads, a row each. */
#include "engine/serve/sched_impl.h"

void sched_log_probabilities(struct sched_token *t, const float *l, uint32_t n_vocab, uint32_t n_top)
{
    struct sampler_cand top[SCHED_MAX_LOGPROBS + 1];
    float norm = sampler_log_sum(l, n_vocab);
    t->logprob = l[t->id] - norm;
    t->n_top = sampler_largest(l, n_vocab, n_top, top);
    for (uint32_t k = 0; k < t->n_top; k++)
        t->top[k] = (struct sched_top){ top[k].id, top[k].logit - norm };
}

struct rows {
    const struct sched_batch *b;
    const float *logits;
};

static void look_at_row(void *user, uint32_t i)
{
    const struct rows *r = user;
    struct sched *s = r->b->s;
    const struct part *p = s->row[i].part;
    struct sched_job *j = p->job;
    const float *logits = r->logits + (size_t)s->row[i].out * s->eng->info.n_vocab;
    int32_t id = s->chosen[s->row[i].out];
    if (!p->on_device || gen_refuses(j->gen, id))
        id = gen_choose(j->gen, logits);
    if (j->n_logprobs >= 0 && id >= 0) {
        j->likely = (struct sched_token){ .id = id };
        sched_log_probabilities(&j->likely, logits, s->eng->info.n_vocab, (uint32_t)j->n_logprobs);
    }
}

void sched_look_at_rows(const struct sched_batch *b, const float *logits)
{
    struct sched *s = b->s;
    uint32_t n = 0, out = 0;
    if (!logits)
        return;
    for (uint32_t i = 0; i < b->n_parts; i++) {
        const struct part *p = &b->part[i];
        out += p->n_told;
        bool host = p->out && !p->job->pool && (!p->on_device || p->job->n_logprobs >= 0);
        if (host)
            s->row[n++] = (struct sched_row){ p, out };
        out += p->job->pool ? p->n_pooled : p->out ? 1 + p->n_guess : 0;
    }
    struct rows r = { b, logits };
    row_crew_run(s->crew, n, look_at_row, &r);
}
