/* Conversations over a session. */
#include <stdlib.h>

#include "lib/priv.h"

void chat_use(zinc_chat *c)
{
    atomic_fetch_add(&c->users, 1);
}

void chat_release(zinc_chat *c)
{
    if (!c || atomic_fetch_sub(&c->users, 1) != 1)
        return;
    dialog_destroy(c->d);
    c->s->chat = NULL;
    session_release(c->s);
    free(c);
}

void zinc_chat_close(zinc_chat *c)
{
    chat_release(c);
}

static int check_opts(const zinc_chat_opts *o, struct err *e)
{
    return o->reserved ? err_set(e, -EINVAL, "libzinc: zinc_chat_opts.reserved is not 0") : 0;
}

static int open_chat(zinc_session *s, const zinc_chat_opts *given, zinc_chat **out, struct err *e)
{
    zinc_chat_opts o;
    int32_t *ids = NULL;
    uint32_t n;
    int rc = session_unheld(s, NULL, e);
    if (rc || (rc = STRUCT_TAKE(&o, given, reserved, e)) || (rc = check_opts(&o, e)) ||
        (rc = engine_encode(s->m->eng, "", 0, 0, &ids, &n, e)))
        return rc;
    free(ids); /* there is a vocabulary */
    zinc_chat *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    atomic_init(&c->users, 1);
    if ((rc = think_of(o.think, &c->think, e)) || (rc = dialog_create(s->s, o.system, c->think, &c->d, e))) {
        free(c);
        return rc;
    }
    c->s = s;
    s->chat = c;
    session_use(s);
    *out = c;
    return 0;
}

int zinc_chat_open(zinc_session *s, const zinc_chat_opts *o, zinc_chat **out, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = out ? session_enter(s, &sc, &own) : err_set(&own, -EINVAL, "libzinc: zinc_chat_open: out is NULL");
    if (!rc) {
        rc = open_chat(s, o, out, &own);
        session_leave(s, &sc);
    }
    return done(rc, &own, e);
}

/* -EINVAL: NULL; -EBUSY: as session_enter, or an answer is not at its end. */
static int enter(zinc_chat *c, struct scope *sc, struct err *e)
{
    if (!c)
        return err_set(e, -EINVAL, "libzinc: the chat is NULL");
    int rc = session_enter(c->s, sc, e);
    if (!rc && (rc = session_unheld(c->s, c, e)))
        session_leave(c->s, sc);
    return rc;
}

int zinc_chat_say(zinc_chat *c, const char *text, const zinc_gen_opts *o, zinc_gen **out, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = text && out ? enter(c, &sc, &own)
                         : err_set(&own, -EINVAL, "libzinc: zinc_chat_say: %s is NULL", text ? "out" : "the text");
    if (!rc) {
        rc = gen_open(c->s, c, NULL, 0, text, o, out, &own);
        session_leave(c->s, &sc);
    }
    return done(rc, &own, e);
}

int zinc_chat_reset(zinc_chat *c, const char *system, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = enter(c, &sc, &own);
    if (!rc) {
        rc = dialog_reset(c->d, system, &own);
        session_leave(c->s, &sc);
    }
    return done(rc, &own, e);
}

int zinc_chat_undo(zinc_chat *c, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = enter(c, &sc, &own);
    if (!rc) {
        rc = dialog_undo(c->d, &own);
        session_leave(c->s, &sc);
    }
    return done(rc, &own, e);
}

int zinc_chat_load(zinc_chat *c, const zinc_message *messages, size_t n, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    struct messages v;
    int rc = enter(c, &sc, &own);
    if (rc)
        return done(rc, &own, e);
    if (!(rc = messages_take(messages, n, &v, &own))) {
        rc = dialog_load(c->d, v.m, v.n, &own);
        messages_free(&v);
    }
    session_leave(c->s, &sc);
    return done(rc, &own, e);
}

int zinc_chat_message(zinc_chat *c, size_t i, zinc_message *out, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = c ? session_enter(c->s, &sc, &own) : err_set(&own, -EINVAL, "libzinc: the chat is NULL");
    if (rc)
        return done(rc, &own, e);
    if (i >= dialog_n_messages(c->d)) {
        rc = err_set(&own, -ENOENT, "libzinc: the conversation has %u messages, there is no number %zu",
                     dialog_n_messages(c->d), i);
    } else {
        const struct engine_message *m = dialog_message(c->d, (uint32_t)i);
        zinc_message v = { .role = m->role, .text = m->text, .reasoning = m->reasoning };
        rc = struct_give(&v, sizeof v, out, "the message", &own);
    }
    session_leave(c->s, &sc);
    return done(rc, &own, e);
}
