/* examples/answer.c: one question, and its answer as it comes. Reasoning goes to stderr; Ctrl-C stops the answer.
 *
 *     cc answer.c $(pkg-config --cflags --libs libzinc) -o answer
 *     ./answer model.gguf "What is 27 + 48?" */
#include <signal.h>
#include <stdio.h>
#include <zinc.h>

static zinc_session *session;

static void on_interrupt(int sig)
{
    (void)sig;
    zinc_session_cancel(session);
}

static int fail(const zinc_error *e)
{
    fprintf(stderr, "answer: %s\n", e->text);
    return 1;
}

int main(int argc, char **argv)
{
    zinc_error e = { 0 };
    zinc_model *model = NULL;
    zinc_chat *chat = NULL;
    zinc_gen *gen = NULL;
    zinc_model_opts mo = { .size = sizeof mo, .path = argv[1] };
    zinc_gen_opts go = { .size = sizeof go, .sampling = "temp=0" };
    zinc_piece piece = { .size = sizeof piece };
    zinc_gen_info info = { .size = sizeof info };
    int rc;

    if (argc != 3) {
        fprintf(stderr, "usage: answer MODEL.gguf QUESTION\n");
        return 2;
    }
    if (zinc_model_open(&mo, &model, &e) || zinc_session_open(model, &session, &e) ||
        zinc_chat_open(session, NULL, &chat, &e) || zinc_chat_say(chat, argv[2], &go, &gen, &e))
        return fail(&e);
    signal(SIGINT, on_interrupt);
    while ((rc = zinc_gen_next(gen, &piece, &e)) == 1) {
        FILE *to = piece.kind == ZINC_PIECE_TEXT ? stdout : stderr;
        fwrite(piece.text, 1, piece.n_text, to);
        fflush(to);
    }
    putchar('\n');
    if (rc < 0)
        return fail(&e);
    zinc_gen_info_get(gen, &info, NULL);
    fprintf(stderr, "[%u tokens of prompt, %u of answer]\n", info.n_prompt, info.n_tokens);
    zinc_gen_close(gen);
    zinc_chat_close(chat);
    zinc_session_close(session);
    zinc_model_close(model);
    return 0;
}
