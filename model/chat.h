/* model/chat.h
 * Conversations to prompts. The model families that zinc knows best have their chat format written in C; the file's Jinja
 * text (tokenizer.chat_template) is searched for the marks that tell the formats apart. The text made here equals what the
 * family's official template renders (the instruction sentences around tools are part of the format: models were trained
 * on them byte for byte). A template with other marks is interpreted (chat_file_open).
 *
 *     struct chat_template tpl;
 *     chat_template_detect(g, &tpl);
 *     struct chat_msg m[] = {{.role = "system", .content = "Be brief."}, {.role = "user", .content = "Hello"}};
 *     struct chat_opts o = {.add_generation_prompt = true};
 *     rc = chat_render_marked(&tpl, m, 2, &o, &text, &plain, &e);
 *     rc = tok_encode_marked(t, text.s, text.n, &plain, TOK_ADD_SPECIAL | TOK_PARSE_SPECIAL, &ids, &e);
 *
 * Control tokens come from the format alone: what the conversation says (contents, names, reasoning, tools and their
 * arguments) is in `plain`, and "<|im_end|>" there is ten characters and no end of a message.
 *
 * The text never begins with the BOS token: TOK_ADD_SPECIAL adds it. (If chat_format_info says that the format begins
 * with BOS and tok_add_bos says no, put tok_bos in front.) */
#ifndef ZINC_MODEL_CHAT_H
#define ZINC_MODEL_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/gguf.h"
#include "model/tok_buf.h"

/* X(enum name, name for people) */
#define CHAT_FORMATS(X)                                                                                      \
    X(CHATML, "chatml")                 /* also Qwen3 Instruct-2507 and Qwen3-Next Instruct */               \
    X(QWEN3, "qwen3")                   /* thinking can be turned off                       */               \
    X(QWEN3_THINKING, "qwen3-thinking") /* always thinks: Thinking-2507, QwQ                */               \
    X(QWEN3_CODER, "qwen3-coder")                                                                            \
    X(QWEN35, "qwen3.5")                                                                                     \
    X(LLAMA3, "llama3")                                                                                      \
    X(LLAMA31, "llama3.1")                                                                                   \
    X(GPT_OSS, "gpt-oss")                                                                                    \
    X(GEMMA3, "gemma3")                                                                                      \
    X(GEMMA4, "gemma4")

enum chat_format {
#define X(name, text) CHAT_##name,
    CHAT_FORMATS(X)
#undef X
        CHAT_FORMAT_COUNT
};

struct chat_template {
    enum chat_format format;
    bool think_default; /* what chat_opts.thinking = CHAT_THINK_DEFAULT means for this file       */
    bool guessed;       /* the file has no template, or one that is not known: worth a warning    */
    char default_system[512]; /* ChatML: what the template says where a conversation begins without a system
                                 message, as SmolLM2's and Qwen2.5's do; "": nothing                      */
    const struct chat_file *file; /* renders instead of the format; NULL: none. Not owned         */
};

/* Never fails; without any mark the format is CHATML, guessed. */
void chat_template_detect(const struct gguf *g, struct chat_template *out);
void chat_template_detect_text(const char *text, size_t n,
                               struct chat_template *out);      /* a template's text alone */
bool chat_format_find(const char *name, enum chat_format *out); /* by name for people      */

/* One tool call that the assistant made. */
struct chat_call {
    const char *id; /* NULL: none */
    const char *name;
    const char *arguments; /* JSON text, normally an object; NULL or "" is {}; what is none is rendered as it stands */
};

struct chat_msg {
    const char *role;    /* "system", "developer", "user", "assistant", "tool"                              */
    const char *content; /* NULL is ""                                                                      */
    const char
        *reasoning; /* assistant: what was thought before the content; NULL: look for it in the content */
    const struct chat_call *calls; /* assistant */
    size_t n_calls;
    const char *name;         /* tool: the function's name, NULL if only the id is known */
    const char *tool_call_id; /* tool */
};

enum chat_thinking { CHAT_THINK_DEFAULT, CHAT_THINK_ON, CHAT_THINK_OFF };

struct chat_opts {
    enum chat_thinking
        thinking; /* formats that cannot turn it off (or on) ignore it                               */
    bool
        add_generation_prompt; /* end where the assistant begins to speak                                         */
    bool
        continue_final; /* end inside the last message, the assistant's, which has no calls: it is to be continued.
                           Instead of add_generation_prompt                                                */
    const char
        *tools;       /* JSON array of {"type":"function","function":{name, description, parameters}}, NULL */
    const char *date; /* "YYYY-MM-DD"; NULL: today for gpt-oss, 26 Jul 2024 for Llama 3.1 (its template's) */
    const char *
        reasoning_effort; /* gpt-oss: "low", "medium", "high"; NULL: medium                                 */
};

/* Formats that indent JSON make much of little: a prompt has a limit, far beyond any context. */
enum { CHAT_MAX_BYTES = 32 << 20 };

/* Appends the prompt to *out. Messages may come in any order: several system messages, late ones, results without calls
 * and the like are put where the format has a place for them (chat_order.c). -EINVAL: a conversation that the format
 * cannot express (no user message where it needs one, tools that are not JSON), with the reason; -ENOTSUP: tools for a format that
 * has none (LLAMA3, GEMMA3, a template that does not speak of them); -E2BIG: more than CHAT_MAX_BYTES; -ENOMEM. On failure *out may have grown. */
int chat_render(const struct chat_template *tpl, const struct chat_msg *msg, size_t n,
                const struct chat_opts *opts, struct tok_buf *out, struct err *e);

/* The same, and which stretches of what was appended are the conversation's own text: added to *plain, which is empty
 * before, with offsets into *out. */
int chat_render_marked(const struct chat_template *tpl, const struct chat_msg *msg, size_t n,
                       const struct chat_opts *opts, struct tok_buf *out, struct tok_spans *plain, struct err *e);

/* How calls look in the model's output. */
enum chat_call_syntax {
    CHAT_CALL_NONE,
    CHAT_CALL_JSON, /* call_begin {"name": .., "arguments": {..}} call_end */
    CHAT_CALL_XML, /* call_begin <function=NAME> <parameter=KEY>\nVALUE\n</parameter> .. </function> call_end */
    CHAT_CALL_BARE_JSON, /* the whole answer is {"name": .., "parameters": {..}} */
    CHAT_CALL_HARMONY, /* call_begin NAME<|channel|>commentary json<|message|>{..} call_end; the model may also
                            put call_begin NAME after the channel */
    CHAT_CALL_GEMMA4,  /* call_begin call:NAME{key:value,..} call_end; strings stand between <|"|> marks */
    CHAT_CALL_NAMED,   /* call_begin NAME args_begin {..} call_end, as `named` has it                     */
    CHAT_CALL_PAIRS, /* call_begin NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> .. call_end: GLM-4 */
    CHAT_CALL_LIST,    /* call_begin [{"name": .., "arguments": {..}}, ..] call_end                       */
};

/* Of CHAT_CALL_NAMED: a name, a mark, and the arguments as JSON. Strings are "" where there is nothing. */
struct chat_named_calls {
    const char *section_begin, *section_end; /* around all calls of a message                          */
    const char *prefix;                      /* before the name                                        */
    const char *id_begin;                    /* behind the name: a mark, then an id of letters and digits, which may be left out */
    const char *args_begin;
    bool numbered;                           /* NAME:0, NAME:1 and so on                               */
};

struct chat_info {
    const char *name;
    bool begins_with_bos;       /* the official template begins with BOS                            */
    bool can_think, can_toggle; /* thinks at all; chat_opts.thinking matters                        */
    const char *think_begin,
        *think_end;           /* around the reasoning in the output, NULL: none                   */
    const char *answer_begin; /* what precedes the answer after think_end, NULL: nothing          */
    enum chat_call_syntax calls;
    const char *call_begin, *call_end; /* NULL: none                                                       */
    const struct chat_named_calls *named; /* of CHAT_CALL_NAMED                                               */
};
const struct chat_info *chat_format_info(enum chat_format f);
const struct chat_info *chat_template_info(const struct chat_template *tpl); /* of the file's own template, if it has one */

/* ---- a template that is none of the known ones ---- */

/* The file's own template, parsed, and tried out with short conversations: what it has a place for, whether it takes the
 * arguments of calls as objects, how calls and reasoning look. bos, eos: the tokens' texts, "" where there is none;
 * adds_bos: the tokenizer adds BOS, so that one which the template writes is left out. -EINVAL: no template, or one that
 * does not render the simplest conversation, with the reason; -E2BIG, -ENOMEM. */
struct chat_file;
int chat_file_open(const char *text, size_t n, const char *bos, const char *eos, bool adds_bos, struct chat_file **out,
                   struct err *e);
void chat_file_close(struct chat_file *f); /* NULL is fine */

/* Many templates have ChatML's marks and are none of the formats with them: other first words, thoughts that always begin.
 * *replaces: the template renders a plain conversation in another way than the format that was detected, or one with tools
 * whose calls can be read. One that does not speak of tools replaces no format: those can offer them. 0 or -ENOMEM. */
int chat_file_replaces(const struct chat_file *f, const struct chat_template *detected, bool *replaces, struct err *e);

/* Whether the prompt that chat_render makes ends inside the reasoning, so that the output begins with it and
 * think_begin will not appear. */
bool chat_prompt_opens_thinking(const struct chat_template *tpl, const struct chat_opts *opts);

#endif
