/* Fields that would change the answer and that this server has no part for. They are refused by name: an answer that
 * passes over them would be another one than was asked for. Values that ask for nothing are fine, since clients send
 * whole sets of defaults. Fields that change nothing in an answer (service_tier, store, metadata, user,
 * safety_identifier, prompt_cache_key, cache_prompt, id_slot, priority ...) are not here. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_request.h"

enum { MAX_DEFAULTS = 4, MAX_PARTS = 16 };
enum { CHAT = 1, TEXT = 2, BOTH = 3 };

static const struct unsupported {
    const char *name;
    const char *nothing[MAX_DEFAULTS]; /* JSON values that ask for nothing, beside null */
    int where;
    const char *advice;
} fields[] = {
    /* OpenAI */
    { "audio", { NULL }, CHAT, "answers are text" },
    { "modalities", { "[\"text\"]", "[]" }, CHAT, "answers are text" },
    { "web_search_options", { NULL }, CHAT, "nothing is searched here" },
    /* llama.cpp's server */
    { "n_probs", { "0" }, BOTH, "'logprobs' and 'top_logprobs' tell probabilities" },
    { "mirostat", { "0" }, BOTH, "other steps of sampling are there" },
    { "samplers", { "[]", "[\"penalties\",\"dry\",\"top_n_sigma\",\"top_k\",\"typ_p\",\"top_p\",\"min_p\",\"xtc\",\"temperature\"]" },
      BOTH, "the order of the steps is fixed" },
    { "dry_sequence_breakers", { "[\"\\n\",\":\",\"\\\"\",\"*\"]" }, BOTH, "they are \\n : \" and *" },
    { "penalize_nl", { "false" }, BOTH, "line ends are tokens like others" },
    { "adaptive_target", { "-1", "0" }, BOTH, "other steps of sampling are there" },
    { "n_indent", { "0" }, BOTH, "a grammar can ask for indentation" },
    { "t_max_predict_ms", { "0", "-1" }, BOTH, "'timeout' limits the time" },
    { "lora", { "[]" }, BOTH, "one model is served as it is" },
    { "image_data", { "[]" }, BOTH, "this server reads text only" },
    { "response_fields", { "[]" }, BOTH, "answers come whole" },
    { "return_tokens", { "false" }, BOTH, "POST /tokenize tells ids" },
    { "post_sampling_probs", { "false" }, BOTH, "'logprobs' are the model's own, before sampling" },
    { "grammar_lazy", { "false" }, BOTH, "a grammar holds from the first token on" },
    { "grammar_triggers", { "[]" }, BOTH, "a grammar holds from the first token on" },
    { "reasoning_format", { "\"auto\"", "\"deepseek\"" }, CHAT, "reasoning comes as 'reasoning_content'" },
    { "reasoning_in_content", { "false" }, CHAT, "reasoning comes as 'reasoning_content'" },
    { "parse_tool_calls", { "true" }, CHAT, "leave out 'tools' to get calls as text" },
    { "chat_template", { "\"\"" }, CHAT, "conversations are written in the model's own format" },
    { "input_prefix", { "\"\"" }, TEXT, "text is only continued" },
    { "input_suffix", { "\"\"" }, TEXT, "text is only continued" },
    /* vLLM */
    { "use_beam_search", { "false" }, BOTH, "answers are sampled" },
    { "length_penalty", { "1" }, BOTH, "answers are sampled" },
    { "early_stopping", { "false" }, BOTH, "answers are sampled" },
    { "prompt_logprobs", { NULL }, BOTH, "'logprobs' are those of the answer" },
    { "stop_token_ids", { "[]" }, BOTH, "'stop' takes texts" },
    { "include_stop_str_in_output", { "false" }, BOTH, "the stop's text is left out" },
    { "skip_special_tokens", { "true" }, BOTH, "control tokens are left out" },
    { "truncate_prompt_tokens", { NULL }, BOTH, "a prompt is taken whole or refused" },
    { "allowed_token_ids", { NULL }, BOTH, "a grammar can name tokens" },
    { "bad_words", { "[]" }, BOTH, "'logit_bias' keeps tokens out" },
    { "logits_processors", { "[]" }, BOTH, "a grammar or 'logit_bias' can do much of it" },
    { "structural_tag", { NULL }, BOTH, "a grammar can do the same" },
    { "guided_whitespace_pattern", { NULL }, BOTH, "the white space of JSON is fixed" },
    { "documents", { "[]" }, CHAT, "put them into a message" },
    { "include_reasoning", { "true" }, CHAT, "'enable_thinking' turns reasoning off" },
    { "return_tokens_as_token_ids", { "false" }, BOTH, "POST /tokenize tells ids" },
    { "return_token_ids", { "false" }, BOTH, "POST /tokenize tells ids" },
    { "add_special_tokens", { "true" }, TEXT, "give token ids as the prompt instead" },
    { "add_special_tokens", { "false" }, CHAT, "the chat format has them" },
    { "echo", { "false" }, CHAT, "the prompt is not repeated" },
    /* others */
    { "tfs_z", { "1" }, BOTH, "other steps of sampling are there" },
    { "top_a", { "0" }, BOTH, "other steps of sampling are there" },
    { "smoothing_factor", { "0" }, BOTH, "other steps of sampling are there" },
    { "epsilon_cutoff", { "0" }, BOTH, "other steps of sampling are there" },
    { "eta_cutoff", { "0" }, BOTH, "other steps of sampling are there" },
};

/* Numbers by value: 1 and 1.0 are the same. */
static bool equals(const json_t *v, const char *text)
{
    if (json_is_number(v)) {
        char *end;
        double d = strtod(text, &end);
        return end > text && !*end && d == json_number_value(v);
    }
    if (json_array_size(v) > MAX_PARTS || json_object_size(v) > MAX_PARTS)
        return false;
    json_t *want = json_read(text, strlen(text), JSON_DECODE_ANY, NULL, NULL);
    bool same = want && json_equal((json_t *)v, want);
    json_decref(want);
    return same;
}

int api_request_unsupported(const struct fields *f, bool chat)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const struct unsupported *u = &fields[i];
        if (!(u->where & (chat ? CHAT : TEXT)))
            continue;
        const json_t *v = json_object_get(f->o, u->name);
        bool nothing = !v || json_is_null(v);
        for (size_t k = 0; k < MAX_DEFAULTS && u->nothing[k] && !nothing; k++)
            nothing = equals(v, u->nothing[k]);
        if (!nothing)
            return api_refuse(f->p, 400, "unsupported", u->name, "'%s' is not supported: %s", u->name, u->advice);
    }
    return 0;
}
