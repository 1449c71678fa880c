#include "cli/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/line_edit.h"

struct line_reader {
    bool tty;
    struct editor *ed; /* NULL: plain lines */
    char *text;
    size_t cap;
};

int line_open(const struct line_opts *o, struct line_reader **out, struct err *e)
{
    struct line_reader *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, -ENOMEM, "out of memory");
    l->tty = isatty(STDIN_FILENO);
    int rc = l->tty && isatty(STDERR_FILENO) ? edit_open(o, &l->ed, e) : 0;
    if (rc == -ENOSYS)
        fprintf(stderr, "note: %s\n", e->msg);
    if (rc && rc != -ENOSYS) {
        line_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

void line_close(struct line_reader *l)
{
    if (!l)
        return;
    edit_close(l->ed);
    free(l->text);
    free(l);
}

bool line_is_terminal(const struct line_reader *l)
{
    return l->tty;
}

enum line_how line_read(struct line_reader *l, const char *prompt, char **text, size_t *n)
{
    if (l->ed) {
        free(l->text);
        l->text = NULL;
        enum line_how how = edit_read(l->ed, prompt, &l->text, n);
        *text = l->text;
        return how;
    }
    if (l->tty) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    errno = 0;
    ssize_t len = getline(&l->text, &l->cap, stdin);
    if (len < 0) {
        if (errno != EINTR)
            return LINE_END;
        clearerr(stdin);
        return LINE_INTERRUPTED;
    }
    if (len && l->text[len - 1] == '\n')
        l->text[--len] = 0;
    *text = l->text;
    *n = (size_t)len;
    return LINE_TEXT;
}

void line_remember(struct line_reader *l, const char *text)
{
    if (l->ed)
        edit_remember(l->ed, text);
}

/* Makes the folders of a path, private ones as the specification asks. */
static int make_folders(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        int rc = mkdir(path, 0700);
        *p = '/';
        if (rc && errno != EEXIST)
            return -errno;
    }
    return 0;
}

char *line_state_file(const char *name)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = xdg && *xdg == '/' ? asprintf(&path, "%s/zinc/%s", xdg, name)
            : home && *home == '/' ? asprintf(&path, "%s/.local/state/zinc/%s", home, name) : -1;
    if (n < 0)
        return NULL;
    if (make_folders(path)) {
        free(path);
        return NULL;
    }
    return path;
}
