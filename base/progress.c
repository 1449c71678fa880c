#include "base/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_NS     1000000000u /* stay silent for short work         */
#define TTY_STEP_NS  100000000u  /* redraw at most ten times a second  */
#define FILE_STEP_NS 5000000000u /* a log file gets a line now and then */

static struct {
    char what[64];
    uint64_t start_ns, last_ns;
    bool drawn;
} bar;

static bool draw(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    uint64_t now = clock_ns();
    bool tty = isatty(STDERR_FILENO);
    if (strncmp(bar.what, what, sizeof bar.what - 1) != 0) {
        snprintf(bar.what, sizeof bar.what, "%s", what);
        bar.start_ns = now;
        bar.last_ns = now;
        bar.drawn = false;
    }
    bool end = total && done >= total;
    if (now - bar.start_ns < FIRST_NS || (!end && now - bar.last_ns < (tty ? TTY_STEP_NS : FILE_STEP_NS)))
        goto out;
    if (end && !bar.drawn)
        goto out;
    bar.last_ns = now;
    bar.drawn = true;
    double s = (double)(now - bar.start_ns) * 1e-9;
    char rest[32] = ""; /* at the pace so far */
    if (done && done < total)
        snprintf(rest, sizeof rest, ", %.0f s to go", s * (double)(total - done) / (double)done);
    if (!total)
        fprintf(stderr, tty ? "\r\033[K%s: %llu (%.0f s)" : "%s: %llu (%.0f s)\n", what, (unsigned long long)done, s);
    else if (tty) {
        int fill = (int)(30.0 * (double)done / (double)total);
        fprintf(stderr, "\r\033[K%s [%.*s%*s] %3.0f%% %.0f s%s", what, fill, "##############################",
                30 - fill, "", 100.0 * (double)done / (double)total, s, rest);
    } else {
        fprintf(stderr, "%s: %.0f%% (%.0f s%s)\n", what, 100.0 * (double)done / (double)total, s, rest);
    }
    if (end && tty)
        fprintf(stderr, "\r\033[K");
out:
    if (end)
        bar.what[0] = 0;
    return true;
}

struct progress progress_terminal(void)
{
    return (struct progress){ .fn = draw };
}
