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

/* The token that will be chosen from a row, or may be; -1: nobody knows before those in front of it are chosen. */
static int32_t token_of(const struct sched *s, const struct sched_row *r, const float *logits)
{
    const struct part *p = r->part;
    int32_t id = p->on_device ? s->chosen[r->out] : -1;
    if (r->i)
        return p->on_device ? id : r->i < p->n_guess ? p->tok[r->i + 1] : -1;
    return !p->on_device || gen_refuses(p->job->gen, id) ? gen_choose(p->job->gen, logits) : id;
}

static void look_at_row(void *user, uint32_t i)
{
    const struct rows *r = user;
    struct sched *s = r->b->s;
    const struct sched_row *row = &s->row[i];
    struct sched_job *j = row->part->job;
    const float *logits = r->logits + (size_t)row->out * s->eng->info.n_vocab;
    int32_t id = token_of(s, row, logits);
    if (j->n_logprobs >= 0 && id >= 0) {
        j->likely[row->i] = (struct sched_token){ .id = id };
        sched_log_probabilities(&j->likely[row->i], logits, s->eng->info.n_vocab, (uint32_t)j->n_logprobs);
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
        bool told = p->job->n_logprobs >= 0, host = p->out && !p->job->pool && (!p->on_device || told);
        for (uint32_t k = 0; k <= p->n_guess && host; k++) {
            p->job->likely[k].id = -1;
            if (k == 0 || told)
                s->row[n++] = (struct sched_row){ p, out + k, k };
        }
        out += p->job->pool ? p->n_pooled : p->out ? 1 + p->n_guess : 0;
    }
    struct rows r = { b, logits };
    row_crew_run(s->crew, n, look_at_row, &r);
}
