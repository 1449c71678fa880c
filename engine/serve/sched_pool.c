/* Requests for the vector of a whole prompt: which of its rows are outputs, and what is made of them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/serve/sched_impl.h"

int sched_pool_create(struct sched_job *j, struct err *e)
{
    const struct engine *eng = j->s->eng;
    j->vector = calloc(eng->n_output, sizeof *j->vector);
    j->sum = eng->pooling == POOLING_MEAN ? calloc(eng->n_output, sizeof *j->sum) : NULL;
    if (j->vector && (j->sum || eng->pooling != POOLING_MEAN))
        return 0;
    return err_set(e, -ENOMEM, "scheduler: out of memory for a vector of %u", eng->n_output);
}

/* A mean is over all positions, and the first one is an output by itself: neither may come from the cache, which has no
 * final states. */
void sched_pool_begin(struct sched *s, struct sched_job *j)
{
    if ((s->eng->pooling != POOLING_MEAN && s->eng->pooling != POOLING_CLS) || !j->session->pos)
        return;
    session_truncate(j->session, 0, NULL);
    kvpool_extend(s->pool, j->session, false);
}

uint32_t sched_pool_rows(const struct sched_job *j, uint32_t pos, uint32_t n, uint32_t *first)
{
    *first = 0;
    switch (j->s->eng->pooling) {
    case POOLING_MEAN: return n;
    case POOLING_CLS: return pos == 0;
    default: *first = n - 1; return pos + n == j->n_prompt;
    }
}

bool sched_pool_take(struct sched *s, struct sched_job *j, const float *v, uint32_t n_out)
{
    uint32_t n = s->eng->n_output;
    if (!j->sum && n_out)
        memcpy(j->vector, v, n * sizeof *v);
    for (uint32_t r = 0; j->sum && r < n_out; r++, v += n) /* row by row: the same sums however the prompt was cut */
        for (uint32_t i = 0; i < n; i++)
            j->sum[i] += v[i];
    if (j->session->pos < j->n_prompt)
        return false;
    for (uint32_t i = 0; j->sum && i < n; i++)
        j->vector[i] = (float)(j->sum[i] / j->n_prompt);
    j->first_ns = clock_ns();
    return true;
}
