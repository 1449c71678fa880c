/* Conversations in the model's chat format. */
#include "engine/engine.h"

int engine_chat(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think, int32_t **ids,
                uint32_t *n, struct err *e)
{
    (void)m, (void)n_messages, (void)think, (void)ids, (void)n;
    return err_set(e, -ENOTSUP, "engine: no chat format for %s yet", engine_info(eng)->label);
}
