"""What schemathesis cannot know of the requests that it makes from share/openapi.json (tests/real/test_openapi.sh).

A body of /v1/chat/completions with all of its hundred fields is refused for the first two that exclude each other,
and nothing is learnt of the rest. So a body that is right keeps one of its fields, in turn, beside what must be there
and what that field needs; one that is wrong keeps what is wrong. schemathesis looks again at what was changed: whether
a body is valid is its own judgement of what is sent.

    server_takes_what_is_described    a valid body is answered 200, unless what its texts mean decides
"""
import json
import os
import re
import zlib

import jsonschema_rs
import schemathesis

SPEC = json.load(open(os.environ["OPENAPI_FILE"]))
SCHEMAS = SPEC["components"]["schemas"]
SEEN = os.environ["OPENAPI_SEEN"]  # a file: what was sent and how it was answered, a JSON array a line
TOKENS = 2  # of an answer: it is not what is looked at
LIMITS = ("max_tokens", "max_completion_tokens", "n_predict", "min_tokens")
GOOD = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
    "/v1/completions": {"prompt": "Hello"},
}
REQUEST = {"/v1/chat/completions": "ChatRequest", "/v1/completions": "CompletionRequest"}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
# What a field needs beside it.
NEEDS = {
    "stream_options": {"stream": True},
    "tool_choice": {"tools": [WEATHER]},
    "top_logprobs": {"logprobs": True},
    "best_of": {"n": 8},
    "min_tokens": {"ignore_eos": True},
}
# Where more than the schema decides: grammars and schemas must compile, ids must be of the vocabulary, a choice must
# name a tool, conversations must be such that the model's format can say them, and a deadline may pass.
MEANING = {
    "messages", "prompt", "grammar", "json_schema", "response_format", "guided_json", "guided_choice", "guided_regex",
    "guided_grammar", "structured_outputs", "regex", "ebnf", "logit_bias", "tools", "tool_choice", "timeout", "best_of", "tokens",
    "continue_final_message", "add_generation_prompt", "suffix", "input_suffix", "previous_response_id", "format",
    "input", "text", "output_config", "output_format", "options",
}
# What the demo model is not made for, and what is asked for by a name, which is made up here.
OTHER_MODELS = ("/v1/embeddings", "/v1/rerank", "/api/embed", "/api/embeddings")
NAMED = ("/v1/models/{id}", "/api/show", "/v1/responses/{id}", "/v1/responses/{id}/input_items")


def fields_of(schema):
    """{field: schema} of a request, `allOf` and `$ref` followed."""
    if "$ref" in schema:
        return fields_of(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]])
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        found.update(fields_of(part))
    return found


def is_valid(schema):
    return jsonschema_rs.validator_for({**schema, "components": SPEC["components"]}).is_valid


FIELDS = {
    path: {name: is_valid(s) for name, s in fields_of(SCHEMAS[request]).items()} for path, request in REQUEST.items()
}


had = {path: set() for path in GOOD}  # fields that were sent rightly and answered already


def number_of(body):
    """Another one for another body, the same for the same."""
    return zlib.crc32(json.dumps(body, sort_keys=True, default=str).encode())


def prune(path, body, about):
    """`about`: schemathesis' words for what is special in the body."""
    must = GOOD[path]
    known = FIELDS[path]
    wrong = [n for n in body if n in known and not known[n](body[n])]
    missing = [n for n in must if n not in body]
    if wrong or missing:
        keep = wrong
    else:
        names = sorted(n for n in body if n in known) or list(must)
        meant = re.match(r"Object with valid '(\w+)' value", about)
        late = [n for n in names if n not in had[path]] or names
        keep = [meant[1] if meant and meant[1] in names else late[number_of(body) % len(late)]]
    out = {n: v for n, v in body.items() if n in keep or n not in known}
    for name in keep:
        for other, value in NEEDS.get(name, {}).items():
            out.setdefault(other, value)
    for name, value in must.items():
        if wrong or name not in missing:
            out.setdefault(name, value)
    for name in LIMITS:
        value = out.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and (value == -1 or value > TOKENS):
            out[name] = TOKENS if known[name](value) else value
    if not wrong and number_of(out) % 4 == 0:
        out.setdefault("stream", True)
    if isinstance(out.get("best_of"), int) and out.get("best_of") > 8 and known["best_of"](out["best_of"]):
        out["best_of"] = 8
    return out


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path in GOOD and isinstance(case.body, dict):
        about = case.meta and case.meta.phase.data.description
        case.body = prune(case.path, case.body, about or "")


@schemathesis.check
def server_takes_what_is_described(ctx, response, case):
    body = case.body if isinstance(case.body, dict) else {}
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    with open(SEEN, "a") as f:
        print(json.dumps([case.method, case.path, positive, response.status_code, sorted(body)]), file=f)
    if positive and response.status_code == 200:
        had.get(case.path, set()).update(body)
    if not positive or case.path in OTHER_MODELS:
        return None
    # what a body says of these is the caller's default, and right
    default = GOOD.get(case.path, {})
    if any(n in MEANING and body[n] != default.get(n) and body[n] not in ([WEATHER], None) for n in body):
        return None
    if case.path in NAMED and response.status_code == 404:
        return None
    if response.status_code == 400 and "\\u0000" in json.dumps(body): # no text that a model reads has that character
        return None
    told = response.text[:300]
    assert response.status_code == 200, f"{response.status_code} to a body that is as described: {told}"


def main():
    """What was sent, in a line; and whether each operation and each field had its turn, right and wrong."""
    seen = [json.loads(line) for line in open(SEEN)]
    count = lambda want: sum(1 for s in seen if want(*s))
    print(f"{len(seen)} requests: valid and answered {count(lambda m, p, v, s, b: v and s == 200)}, "
          f"wrong and refused {count(lambda m, p, v, s, b: not v and s == 400)}")
    for path, item in SPEC["paths"].items():
        for method in item:
            if method in ("get", "post", "delete") and path not in ("/favicon.ico",):
                if not count(lambda m, p, v, s, b: p == path and m == method.upper() and s in ((200, 400, 404) if p in NAMED else (200, 400))):
                    print(f"MISS: {method.upper()} {path} was not asked")
    for path, fields in FIELDS.items():
        for name in fields:
            if not count(lambda m, p, v, s, b: p == path and v and s == 200 and name in b) and name not in MEANING:
                print(f"MISS: {path}: '{name}' was never sent rightly and answered")
            if not count(lambda m, p, v, s, b: p == path and not v and s == 400 and name in b):
                print(f"MISS: {path}: '{name}' was never sent wrongly and refused")


if __name__ == "__main__":
    main()
