#include "server/router/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ckd.h"

enum { MOST_ARGS = 1024 };

/* In the new process; only what signal-safety(7) allows. All signals are blocked, until none has a handler of the router's,
 * which would take what is meant for the model. */
static _Noreturn void become(const char *const *argv, int log, pid_t parent)
{
    int null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || null < 0)
        _exit(127);
    dup2(null, 0);
    dup2(null, 1);
    dup2(log, 2);
    setpgid(0, 0); /* what the terminal sends is for the router */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_range(3, ~0u, 0);
#ifdef __APPLE__
    char self[4096];
    if (macos_program(self, sizeof self) > 0)
        execv(self, (char *const *)argv);
#else
    execv("/proc/self/exe", (char *const *)argv); /* also where the file has been replaced since */
#endif
    _exit(127);
}

int child_start(struct child *c, const char *name, const char *const *argv, const char *dir, unsigned no, struct err *e)
{
    const char *all[MOST_ARGS];
    char host[CHILD_SOCKET + 16], ready[CHILD_SOCKET + 16];
    size_t n = 0;
    int log[2];
    *c = (struct child){ .log = -1, .name = name };
    if (snprintf(c->socket, sizeof c->socket, "%s/%u.sock", dir, no) >= (int)sizeof c->socket ||
        snprintf(c->ready, sizeof c->ready, "%s/%u.url", dir, no) >= (int)sizeof c->ready)
        return err_set(e, -ENAMETOOLONG, "%s: the folder for sockets, %s, has too long a name: TMPDIR names another", name, dir);
    snprintf(host, sizeof host, "--host=unix:%s", c->socket);
    snprintf(ready, sizeof ready, "--ready-file=%s", c->ready);
    for (; argv[n] && n < MOST_ARGS - 5; n++)
        all[n] = argv[n];
    if (argv[n])
        return err_set(e, -E2BIG, "%s: more than %d options", name, MOST_ARGS - 5);
    all[n++] = host;
    all[n++] = ready;
    all[n++] = "--behind-router";
    all[n++] = "--no-page";
    all[n] = NULL;
    unlink(c->ready);
    if (pipe2(log, O_CLOEXEC))
        return err_set(e, -errno, "%s: its process cannot be started: pipe2: %s", name, strerror(errno));
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pid_t me = getpid(), pid = fork();
    if (pid == 0)
        become(all, log[1], me);
    int failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(log[1]);
    if (pid < 0) {
        close(log[0]);
        return err_set(e, -failed, "%s: its process cannot be started: fork: %s", name, strerror(failed));
    }
    fcntl(log[0], F_SETFL, O_NONBLOCK);
    c->pid = pid;
    c->log = log[0];
    return 0;
}

bool child_is_ready(const struct child *c)
{
    return c->pid && access(c->ready, F_OK) == 0;
}

bool child_memory(const struct child *c, struct child_memory *out)
{
    char url[512];
    unsigned long long held = 0, had = 0;
    FILE *f = fopen(c->ready, "r");
    bool ok = f && fgets(url, sizeof url, f) && fscanf(f, "memory %llu %llu %95[^\n]", &held, &had, out->place) == 3;
    out->held = held;
    out->had = had;
    if (f)
        fclose(f);
    return ok;
}

/* One write, so that lines of several do not mix. */
static void hand_on(struct child *c)
{
    static const char error[] = "zinc: ", warning[] = "zinc: warning:";
    c->line[c->n_line] = 0;
    c->n_line = 0;
    if (strncmp(c->line, error, strlen(error)) == 0 && strncmp(c->line, warning, strlen(warning)) != 0)
        snprintf(c->last, sizeof c->last, "%s", c->line + strlen(error));
    if (c->line[0])
        fprintf(stderr, "[%s] %s\n", c->name, c->line);
}

void child_read_log(struct child *c)
{
    char buf[4096];
    ssize_t n = 0;
    while (c->log >= 0 && (n = read(c->log, buf, sizeof buf)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            bool end = buf[i] == '\n' || buf[i] == '\r'; /* bars return to the line's start */
            if (!end)
                c->line[c->n_line++] = buf[i];
            if (end || c->n_line == sizeof c->line - 1)
                hand_on(c);
        }
    if (c->log >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        if (c->n_line)
            hand_on(c);
        close(c->log);
        c->log = -1;
    }
}

void child_signal(const struct child *c, int sig)
{
    if (c->pid)
        kill(c->pid, sig);
}

bool child_ended(struct child *c, char how[64])
{
    int status;
    if (!c->pid)
        return true;
    pid_t got = waitpid(c->pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    child_read_log(c);
    if (c->log >= 0)
        close(c->log);
    if (got < 0)
        snprintf(how, 64, "it is gone");
    else if (WIFSIGNALED(status))
        snprintf(how, 64, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, 64, "exit status %d", WEXITSTATUS(status));
    c->pid = 0;
    c->log = -1;
    unlink(c->ready);
    unlink(c->socket);
    return true;
}
