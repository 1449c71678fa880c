/* tools/loadgen/response.c: an HTTP/1.1 response as it comes: head, body by length, by chunks or until the end; and in
 * the body the API's JSON, whole or as server-sent events. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/loadgen/load.h"

enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER };
enum { MAX_LINE = 1 << 20, MAX_BODY = 16 << 20 };

void response_begin(struct response *r)
{
    r->line.n = r->body.n = 0;
    struct response keep = { .line = r->line, .body = r->body };
    for (int i = 0; i < MAX_TEXTS; i++) {
        keep.text[i] = r->text[i];
        keep.text[i].n = 0;
    }
    *r = keep;
    r->length = r->prompt_tokens = r->cached_tokens = r->completion_tokens = -1;
}

void response_free(struct response *r)
{
    bytes_free(&r->line);
    bytes_free(&r->body);
    for (int i = 0; i < MAX_TEXTS; i++)
        bytes_free(&r->text[i]);
}

static void bad(struct response *r, const char *what)
{
    if (!r->broken)
        snprintf(r->error, sizeof r->error, "%s", what);
    r->broken = true;
}

/* ---- the API ---- */

static void put_text(struct response *r, size_t choice, const json_t *s)
{
    if (json_is_string(s) && choice < MAX_TEXTS)
        bytes_put(&r->text[choice], json_string_value(s), json_string_length(s));
}

/* Names and arguments, in the order in which streams tell them too. */
static void put_calls(struct response *r, size_t choice, const json_t *calls)
{
    size_t i;
    const json_t *v;
    json_array_foreach(calls, i, v)
    {
        const json_t *f = json_object_get(v, "function");
        if (json_object_get(f, "name"))
            bytes_put(&r->text[MAX_CHOICES + choice], "\n", 1);
        put_text(r, MAX_CHOICES + choice, json_object_get(f, "name"));
        put_text(r, MAX_CHOICES + choice, json_object_get(f, "arguments"));
    }
}

static void put_logprob(struct response *r, size_t choice, const json_t *token, const json_t *logprob)
{
    put_text(r, MAX_CHOICES + choice, token);
    bytes_format(&r->text[MAX_CHOICES + choice], "%.6g ", json_number_value(logprob));
}

/* A chat's are a list of tokens, a completion's lists of names and of numbers. */
static void put_logprobs(struct response *r, size_t choice, const json_t *l)
{
    const json_t *v, *top, *numbers = json_object_get(l, "token_logprobs");
    size_t i, k;
    json_array_foreach(json_object_get(l, "content"), i, v)
    {
        put_logprob(r, choice, json_object_get(v, "token"), json_object_get(v, "logprob"));
        json_array_foreach(json_object_get(v, "top_logprobs"), k, top)
            put_logprob(r, choice, json_object_get(top, "token"), json_object_get(top, "logprob"));
    }
    json_array_foreach(json_object_get(l, "tokens"), i, v)
        put_logprob(r, choice, v, json_array_get(numbers, i));
}

/* Answers that are no choices: tokens, or text. */
static void read_tokens(struct response *r, const json_t *answer)
{
    char *tokens = json_dumps(json_object_get(answer, "tokens"), JSON_COMPACT);
    if (tokens)
        bytes_text(&r->text[0], tokens);
    free(tokens);
    put_text(r, 0, json_object_get(answer, "content"));
}

static void read_choice(struct response *r, const json_t *c)
{
    size_t i = (size_t)json_integer_value(json_object_get(c, "index"));
    const json_t *delta = json_object_get(c, r->events ? "delta" : "message"), *f;
    size_t before = i < MAX_CHOICES ? r->text[i].n : 0;
    if (delta) { /* reasoning and answer are one text here: both come in order */
        put_text(r, i, json_object_get(delta, "reasoning_content"));
        put_text(r, i, json_object_get(delta, "content"));
    } else {
        put_text(r, i, json_object_get(c, "text"));
    }
    if (i < MAX_CHOICES) {
        put_calls(r, i, json_object_get(delta, "tool_calls"));
        put_logprobs(r, i, json_object_get(c, "logprobs"));
    }
    if (i < MAX_CHOICES)
        r->n_texts += r->text[i].n > before;
    f = json_object_get(c, "finish_reason");
    if (json_is_string(f) && i < MAX_CHOICES)
        snprintf(r->finish[i], sizeof r->finish[i], "%s", json_string_value(f));
}

static void read_json(struct response *r, const char *p, size_t n)
{
    json_error_t why;
    json_t *j = json_loadb(p, n, JSON_ALLOW_NUL, &why), *v;
    if (!j) {
        char what[sizeof r->error];
        size_t at = (size_t)why.position < n ? (size_t)why.position : n, from = at > 60 ? at - 60 : 0;
        snprintf(what, sizeof what, "the answer is not JSON: %.80s, after: %.*s", why.text, (int)(at - from), p + from);
        bad(r, what);
        return;
    }
    if ((v = json_object_get(j, "error"))) {
        const char *message = json_string_value(json_object_get(v, "message"));
        snprintf(r->error, sizeof r->error, "%s", message ? message : "an error without a message");
        r->broken |= r->status == 200; /* in the middle of a stream */
    }
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(j, "choices"), i, c)
        read_choice(r, c);
    if (!r->events)
        read_tokens(r, j);
    if (json_is_object(v = json_object_get(j, "usage"))) {
        r->prompt_tokens = json_integer_value(json_object_get(v, "prompt_tokens"));
        r->completion_tokens = json_integer_value(json_object_get(v, "completion_tokens"));
        v = json_object_get(v, "prompt_tokens_details");
        r->cached_tokens = json_integer_value(json_object_get(v, "cached_tokens"));
    }
    json_decref(j);
}

/* A line of an event stream, without its end. */
static void event_line(struct response *r, const char *p, size_t n)
{
    if (n && p[n - 1] == '\r')
        n--;
    if (n < 5 || memcmp(p, "data:", 5) != 0) {
        if (n && p[0] != ':')
            bad(r, "a line of the stream is not data");
        return;
    }
    p += 5;
    n -= 5;
    for (; n && *p == ' '; n--)
        p++;
    if (r->finished) {
        bad(r, "an event after [DONE]");
    } else if (n == 6 && memcmp(p, "[DONE]", 6) == 0) {
        r->finished = true;
    } else {
        r->n_events++;
        read_json(r, p, n);
    }
}

static void body_end(struct response *r)
{
    r->done = true;
    if (r->events)
        return;
    r->finished = true;
    if (r->body.n)
        read_json(r, r->body.p, r->body.n);
}

static void body_put(struct response *r, const char *p, size_t n)
{
    if (!r->events) {
        if (r->body.n + n <= MAX_BODY)
            bytes_put(&r->body, p, n);
        return;
    }
    for (const char *nl; n && (nl = memchr(p, '\n', n)); n -= (size_t)(nl + 1 - p), p = nl + 1) {
        if (r->body.n) {
            bytes_put(&r->body, p, (size_t)(nl - p));
            event_line(r, r->body.p, r->body.n);
            r->body.n = 0;
        } else {
            event_line(r, p, (size_t)(nl - p));
        }
    }
    if (n)
        bytes_put(&r->body, p, n);
}

/* ---- HTTP ---- */

static void header(struct response *r, char *line)
{
    char *value = strchr(line, ':');
    if (!value) {
        bad(r, "a header line without a colon");
        return;
    }
    *value++ = 0;
    value += strspn(value, " \t");
    if (strcasecmp(line, "content-length") == 0)
        r->length = strtoll(value, NULL, 10);
    else if (strcasecmp(line, "transfer-encoding") == 0)
        r->chunked = strcasecmp(value, "chunked") == 0;
    else if (strcasecmp(line, "connection") == 0)
        r->keep_alive = strcasecmp(value, "close") != 0;
    else if (strcasecmp(line, "retry-after") == 0)
        r->retry_after = (uint32_t)strtoul(value, NULL, 10);
    else if (strcasecmp(line, "content-type") == 0)
        r->events = strncasecmp(value, "text/event-stream", 17) == 0;
}

static void head_line(struct response *r, char *line)
{
    if (!r->status) {
        int major, minor;
        if (sscanf(line, "HTTP/%d.%d %d", &major, &minor, &r->status) != 3 || r->status < 100 || r->status > 599) {
            bad(r, "no HTTP status line");
            r->status = 0;
            r->done = true;
        }
        r->keep_alive = major == 1 && minor == 1;
    } else if (*line) {
        header(r, line);
    } else if (r->status == 100) { /* the real one follows */
        r->status = 0;
        r->length = -1;
    } else {
        r->head_done = true;
        if (r->chunked)
            r->length = -1;
        if (r->status == 204 || r->status == 304 || r->length == 0)
            body_end(r);
    }
}

static void chunk_line(struct response *r, char *line)
{
    if (r->chunk_phase == CHUNK_SIZE) {
        char *end;
        r->length = strtoll(line, &end, 16);
        if (end == line || r->length < 0)
            bad(r, "a bad chunk size");
        r->chunk_phase = r->length > 0 ? CHUNK_DATA : CHUNK_TRAILER;
    } else if (r->chunk_phase == CHUNK_DATA_END) {
        if (*line)
            bad(r, "a chunk is longer than it says");
        r->chunk_phase = CHUNK_SIZE;
    } else if (!*line) {
        body_end(r);
    }
}

/* Takes bytes up to a line's end; the line is handled when it is there. */
static size_t line_put(struct response *r, const char *p, size_t n, void (*fn)(struct response *, char *))
{
    const char *nl = memchr(p, '\n', n);
    size_t used = nl ? (size_t)(nl + 1 - p) : n;
    bytes_put(&r->line, p, used);
    if (r->line.n > MAX_LINE)
        bad(r, "an endless line");
    if (!nl)
        return used;
    size_t end = r->line.n - 1;
    if (end && r->line.p[end - 1] == '\r')
        end--;
    r->line.p[end] = 0;
    r->line.n = 0;
    fn(r, r->line.p);
    return used;
}

void response_feed(struct response *r, const char *p, size_t n)
{
    while (n && !r->done && !r->broken) {
        size_t used;
        if (!r->head_done) {
            used = line_put(r, p, n, head_line);
        } else if (r->chunked && r->chunk_phase != CHUNK_DATA) {
            used = line_put(r, p, n, chunk_line);
        } else {
            used = r->length >= 0 && (uint64_t)r->length < n ? (size_t)r->length : n;
            body_put(r, p, used);
            if (r->length >= 0 && (r->length -= (int64_t)used) == 0) {
                if (r->chunked)
                    r->chunk_phase = CHUNK_DATA_END;
                else
                    body_end(r);
            }
        }
        p += used;
        n -= used;
    }
    if (n && r->done && !r->broken)
        bad(r, "bytes after the end of the answer");
}

void response_eof(struct response *r)
{
    r->keep_alive = false;
    if (r->done)
        return;
    if (r->head_done && !r->chunked && r->length < 0) /* the body ends with the connection */
        body_end(r);
    else if (r->status || r->line.n)
        bad(r, "the connection was closed in the middle of the answer");
}
