/* Facts about libedit are from its manual pages, editline(3) and editline(7); about bracketed paste from xterm's control
 * sequences (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html): the terminal puts ESC [ 200 ~ before what was pasted and
 * ESC [ 201 ~ behind it, once ESC [ ? 2004 h has asked for that. */
#include "cli/line_edit.h"

#include <errno.h>

#ifndef ZINC_EDIT

int edit_open(const struct line_opts *o, struct editor **out, struct err *e)
{
    return err_set(e, -ENOSYS, "no line editor in this build: a line ends after 4,095 bytes (apt-get install libedit-dev; make)");
}

void edit_close(struct editor *ed)
{
}

enum line_how edit_read(struct editor *ed, const char *prompt, char **text, size_t *n)
{
    return LINE_END;
}

void edit_remember(struct editor *ed, const char *text)
{
}

#else

#include <glob.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000, MAX_PASTE = 1 << 20 /* characters */ };

#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

struct editor {
    EditLine *el;
    History *h;
    char *file;                  /* NULL: the history is not kept */
    const char *const *commands;
    const char *prompt;
    bool interrupted;
};

static struct editor *editor_of(EditLine *el)
{
    void *ed = NULL;
    el_get(el, EL_CLIENTDATA, &ed);
    return ed;
}

static char *prompt_of(EditLine *el)
{
    return (char *)editor_of(el)->prompt;
}

/* ---- keys ---- */

static unsigned char on_interrupt(EditLine *el, int c)
{
    editor_of(el)->interrupted = true;
    return CC_EOF;
}

static unsigned char on_newline(EditLine *el, int c)
{
    return el_winsertstr(el, L"\n") ? CC_ERROR : CC_REFRESH;
}

/* Whether buf[0..n) ends with what ends a paste. */
static bool paste_ends(const wchar_t *buf, size_t n)
{
    static const wchar_t end[] = L"\033[201~";
    return n >= 6 && wmemcmp(buf + n - 6, end, 6) == 0;
}

/* Everything up to the end of the paste is text; lines of it end in CR or LF. */
static unsigned char on_paste(EditLine *el, int c)
{
    size_t n = 0, cap = 4096, kept = 0;
    wchar_t *buf = malloc(cap * sizeof *buf), w;
    while (buf && n < MAX_PASTE && el_wgetc(el, &w) == 1) {
        buf[n++] = w;
        if (paste_ends(buf, n)) {
            n -= 6;
            break;
        }
        if (n == cap) {
            wchar_t *more = realloc(buf, (cap *= 2) * sizeof *buf);
            if (!more)
                free(buf);
            buf = more;
        }
    }
    if (!buf)
        return CC_ERROR;
    for (size_t i = 0; i < n; i++) {
        w = buf[i] == L'\r' ? L'\n' : buf[i];
        if (w >= L' ' || w == L'\n' || w == L'\t') /* no other control characters */
            buf[kept++] = w;
    }
    while (kept && buf[kept - 1] == L'\n') /* the return key ends a message, not the paste */
        kept--;
    buf[kept] = 0;
    int rc = kept ? el_winsertstr(el, buf) : 0;
    free(buf);
    return rc ? CC_ERROR : CC_REFRESH;
}

/* ---- completion ---- */

struct candidates {
    char **word;
    size_t n;
    glob_t files;
};

static void find_candidates(struct candidates *c, const struct editor *ed, const char *before)
{
    const char *space = strrchr(before, ' ');
    char pattern[4096];
    *c = (struct candidates){ 0 };
    if (before[0] != '/')
        return;
    if (space) {
        snprintf(pattern, sizeof pattern, "%s*", space + 1);
        if (glob(pattern, GLOB_MARK | GLOB_TILDE, NULL, &c->files) == 0) {
            c->word = c->files.gl_pathv;
            c->n = c->files.gl_pathc;
        }
        return;
    }
    size_t n_all = 0;
    while (ed->commands && ed->commands[n_all])
        n_all++;
    c->word = calloc(n_all + 1, sizeof *c->word);
    for (size_t i = 0; c->word && i < n_all; i++)
        if (strncmp(ed->commands[i], before, strlen(before)) == 0)
            c->word[c->n++] = (char *)ed->commands[i];
}

static void free_candidates(struct candidates *c)
{
    if (c->files.gl_pathv)
        globfree(&c->files);
    else
        free(c->word);
}

/* How long the beginning is that all have in common. */
static size_t common_length(const struct candidates *c)
{
    size_t n = strlen(c->word[0]);
    for (size_t i = 1; i < c->n; i++)
        for (size_t k = 0; k < n; k++)
            if (c->word[i][k] != c->word[0][k])
                n = k;
    return n;
}

static unsigned char on_tab(EditLine *el, int key)
{
    const LineInfo *line = el_line(el);
    char before[4096], add[4096];
    struct candidates c;
    unsigned char rc = CC_REFRESH;
    snprintf(before, sizeof before, "%.*s", (int)(line->cursor - line->buffer), line->buffer);
    find_candidates(&c, editor_of(el), before);
    const char *word = strrchr(before, ' ') ? strrchr(before, ' ') + 1 : before;
    size_t typed = *word == '~' ? 0 : strlen(word), common = c.n ? common_length(&c) : 0;
    bool whole = c.n == 1 && common && c.word[0][common - 1] != '/';
    if (c.n && (common > typed || whole)) {
        if (*word == '~') /* the home folder is written out */
            el_deletestr(el, (int)strlen(word));
        snprintf(add, sizeof add, "%.*s%s", (int)(common - typed), c.word[0] + typed, whole ? " " : "");
        rc = *add && el_insertstr(el, add) ? CC_ERROR : CC_REFRESH;
    } else if (c.n > 1) {
        fputc('\n', stderr);
        for (size_t i = 0; i < c.n; i++)
            fprintf(stderr, "%s%s", c.word[i], i + 1 < c.n ? "  " : "\n");
        rc = CC_REDISPLAY;
    } else {
        rc = CC_ERROR;
    }
    free_candidates(&c);
    return rc;
}

/* ---- the editor ---- */

/* UTF-8 for the widths of characters, whatever the locale says: all that zinc writes is UTF-8. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void bind_keys(EditLine *el)
{
    static const struct {
        const char *name, *help, *keys[3];
        unsigned char (*fn)(EditLine *, int);
    } own[] = {
        { "zinc-interrupt", "forget the line", { "^C" }, on_interrupt },
        { "zinc-newline", "begin another line of the message", { "^[^J", "^[^M" }, on_newline },
        { "zinc-paste", "take what is pasted as text", { "^[[200~" }, on_paste },
        { "zinc-complete", "complete a command or a file's name", { "^I" }, on_tab },
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        el_set(el, EL_ADDFN, own[i].name, own[i].help, own[i].fn);
        for (size_t k = 0; k < 3 && own[i].keys[k]; k++)
            el_set(el, EL_BIND, own[i].keys[k], own[i].name, NULL);
    }
    el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

int edit_open(const struct line_opts *o, struct editor **out, struct err *e)
{
    HistEvent ev;
    struct editor *ed = calloc(1, sizeof *ed);
    if (!ed)
        return err_set(e, -ENOMEM, "out of memory");
    use_utf8();
    ed->el = el_init("zinc", stdin, stderr, stderr);
    ed->h = history_init();
    ed->file = o->history ? strdup(o->history) : NULL;
    if (!ed->el || !ed->h || (o->history && !ed->file)) {
        edit_close(ed);
        return err_set(e, -ENOMEM, "out of memory for the line editor");
    }
    ed->commands = o->commands;
    ed->prompt = "";
    history(ed->h, &ev, H_SETSIZE, HISTORY_LINES);
    history(ed->h, &ev, H_SETUNIQUE, 1);
    if (ed->file)
        history(ed->h, &ev, H_LOAD, ed->file); /* none yet: fine */
    el_set(ed->el, EL_CLIENTDATA, ed);
    el_set(ed->el, EL_PROMPT, prompt_of);
    el_set(ed->el, EL_EDITOR, "emacs");
    el_set(ed->el, EL_HIST, history, ed->h);
    el_set(ed->el, EL_SIGNAL, 1);
    el_source(ed->el, NULL); /* the person's own ~/.editrc */
    bind_keys(ed->el);
    el_set(ed->el, EL_SETTY, "-d", "-isig", NULL); /* while a line is edited Ctrl-C is a key */
    *out = ed;
    return 0;
}

static void save_history(struct editor *ed)
{
    HistEvent ev;
    if (ed->file)
        history(ed->h, &ev, H_SAVE, ed->file); /* mode 0600 */
}

void edit_close(struct editor *ed)
{
    if (!ed)
        return;
    if (ed->h) {
        save_history(ed);
        history_end(ed->h);
    }
    if (ed->el)
        el_end(ed->el);
    free(ed->file);
    free(ed);
}

enum line_how edit_read(struct editor *ed, const char *prompt, char **text, size_t *n)
{
    int len = 0;
    ed->prompt = prompt;
    ed->interrupted = false;
    el_set(ed->el, EL_PREP_TERM, 1); /* before the prompt can be seen: Ctrl-C is a key from here on */
    fputs(PASTE_ON, stderr);
    fflush(stderr);
    const char *s = el_gets(ed->el, &len);
    fputs(PASTE_OFF, stderr);
    fflush(stderr);
    if (ed->interrupted) {
        el_reset(ed->el);
        fputc('\n', stderr);
        return LINE_INTERRUPTED;
    }
    if (!s || len <= 0)
        return LINE_END;
    len -= s[len - 1] == '\n';
    *text = strndup(s, (size_t)len);
    *n = (size_t)len;
    return *text ? LINE_TEXT : LINE_END;
}

void edit_remember(struct editor *ed, const char *text)
{
    HistEvent ev;
    history(ed->h, &ev, H_ENTER, text);
    save_history(ed);
}

#endif
