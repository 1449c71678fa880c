/* cli/chat.h: a conversation on the terminal: what chat.c, which drives it, shares with its /commands (chat_commands.c). */
#ifndef ZINC_CLI_CHAT_H
#define ZINC_CLI_CHAT_H

#include "cli/cli.h"
#include "cli/line.h"
#include "engine/dialog.h"

#define CHAT_DIM   "\033[2m"
#define CHAT_PLAIN "\033[0m"

struct chat {
    struct engine *eng;
    struct session *s;
    struct dialog *d;
    struct gen_opts o;
    struct line_reader *in;
    bool tty_in, colour;
    bool scripted;    /* the message came from --say                  */
    bool dim;         /* the terminal is in the middle of dimmed text */
    bool said;        /* the answer has begun                         */
    uint32_t interruptions; /* of the line that is typed, one after the other */
    uint32_t n_turns, n_generated; /* since the start; tokens         */
    uint32_t seed;                 /* of the last answer              */
    struct gen_result last;
    char *text;       /* a message of several lines                   */
    size_t n_text, cap_text;
};

/* One turn. 0, or an exit status that ends the program. */
int chat_say(struct chat *c, const char *text);

/* The commands' names, "/help" and so on; ends with NULL. */
extern const char *const chat_command_names[];

enum chat_next { CHAT_GO_ON, CHAT_END };
/* Does what a line that begins with / asks for; *status is what chat_say returned, if it was called. */
enum chat_next chat_command(struct chat *c, const char *line, int *status);

#endif
