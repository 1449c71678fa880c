"""What tests/real/test_schemas*.sh ask: do zinc's constrained answers satisfy Python's jsonschema? The schemas are in
tests/real/schemas/*.json, lines of [name, question, schema, notes]; notes tell what is special about one:

    draft    which draft it is written in (2020-12)
    narrow   why zinc allows less than the schema does; nothing is missed in what it allows
    warned   keywords that zinc passes over with a warning; what they ask for is left out of the check
    refused  zinc refuses it, and says so in these words

    schemas.py grammar MATCH                       zinc's grammars alone, by random texts and changed ones
    schemas.py answers URL MATCH                   a model's answers
    schemas.py calls URL FORMAT                    a model's calls of tools
    schemas.py vocabulary IN OUT FORMAT TEMPLATE   a copy of a model that has another format's template and marks
"""

import concurrent.futures
import copy
import decimal
import fractions
import glob
import json
import os
import random
import re
import struct
import subprocess
import sys
import urllib.error
import urllib.request

import jsonschema
from jsonschema import validators

HERE = os.path.dirname(os.path.abspath(__file__))
FORMATS = ("date", "time", "date-time", "uuid", "email", "ipv4")  # those that zinc enforces

FORMAT_CHECKER = jsonschema.FormatChecker(())
FORMAT_CHECKER.checkers = {f: validators.Draft202012Validator.FORMAT_CHECKER.checkers[f] for f in FORMATS}

misses = []
MOST_TOLD = 3  # misses of one schema


def miss(text):
    """What begins with the same name is told a few times."""
    name = text.split(":")[0]
    misses.append(name)
    if misses.count(name) <= MOST_TOLD:
        print("MISS: " + text[:400])


# ---- schemas and the validator ------------------------------------------------------------------------------


class Entry:
    def __init__(self, file, row):
        self.name = os.path.basename(file)[:-5] + "/" + row[0]
        self.ask, self.schema = row[1], row[2]
        notes = row[3] if len(row) > 3 else {}
        self.draft = notes.get("draft", 2020)
        self.warned = notes.get("warned", [])
        self.refused = notes.get("refused")
        self.narrow = notes.get("narrow")
        self.may, self.near = notes.get("may"), notes.get("near", [])


def entries():
    files = sorted(glob.glob(HERE + "/schemas/*.json"))
    return [Entry(f, row) for f in files if not f.endswith("/tools.json") for row in json.load(open(f))]


BLANK = "[\\t\\n\\v\\f\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"


def pattern_of_ecma(validator, pattern, instance, schema):
    """ECMA-262's \\d and \\w are ASCII, its \\s has all blanks, and its $ is the end alone."""
    if validator.is_type(instance, "string"):
        ours = (
            re.sub(r"((?:^|[^\\])(?:\\\\)*)\$", r"\1\\Z", pattern)
            .replace(r"\s", BLANK)
            .replace(r"\S", "(?:(?!%s)[\\s\\S])" % BLANK)
        )
        if not re.search(ours, instance, re.ASCII):
            yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def multiple_in_decimals(validator, factor, instance, schema):
    """jsonschema divides binary fractions, by which 1.13 is no multiple of 0.01."""
    if validator.is_type(instance, "number"):
        if fractions.Fraction(repr(instance)) % fractions.Fraction(repr(factor)) != 0:
            yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {factor!r}")


def loosened(schema, words):
    """Without what the words ask for."""
    if isinstance(schema, list):
        return [loosened(x, words) for x in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, v in schema.items():
        if key not in words:
            out[key] = loosened(v, words)
        elif key == "oneOf":
            out["anyOf"] = loosened(v, words)
    return out


def validator_of(entry, words=None):
    base = {4: validators.Draft4Validator, 7: validators.Draft7Validator, 2020: validators.Draft202012Validator}[
        entry.draft
    ]
    cls = validators.extend(base, {"pattern": pattern_of_ecma, "multipleOf": multiple_in_decimals})
    schema = loosened(entry.schema, entry.warned if words is None else words)
    cls.check_schema(schema)
    return cls(schema, format_checker=FORMAT_CHECKER)


def parsed(text):
    """The value of a text; ValueError, also where a name comes twice or a number is none of JSON's."""

    def refuse(word):
        raise ValueError("not JSON: " + word)

    return json.loads(text, parse_constant=refuse)


# ---- the grammar alone --------------------------------------------------------------------------------------


class Match:
    """tests/real/schema_match.c"""

    def __init__(self, path):
        self.p = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="ascii")

    def ask(self, line, n=1):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return [json.loads(self.p.stdout.readline()) for _ in range(n)]

    def schema(self, schema, form="value"):
        return self.ask("schema %s %s" % (form, json.dumps(schema)))[0]

    def has(self, text):
        return self.ask("text " + json.dumps(text))[0]

    def has_prefix(self, text):
        return self.ask("prefix " + json.dumps(text))[0]

    def walks(self, seed, n):
        return [w for w in self.ask("walk %d %d" % (seed, n), n) if w is not None]


def written(v):
    """Compact, in the order of the members, numbers without exponent."""
    if isinstance(v, float):
        return format(decimal.Decimal(repr(v)), "f")
    if isinstance(v, list):
        return "[" + ",".join(map(written, v)) + "]"
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + written(x) for k, x in v.items()) + "}"
    return json.dumps(v, ensure_ascii=False)


GENERIC = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    100,
    3.5,
    -0.25,
    "",
    "a",
    "abc",
    "a longer text",
    "2024-02-28",
    "é",
    "\n",
    [],
    [1],
    ["a"],
    [[1]],
    [1, 2, 3],
    {},
    {"a": 1},
    {"x": "y"},
]
WORDS = ["", "a", "x", "ab", "Q", "0", "9", "é", "日", '"', "\\", "\n", " ", "-", "2023-02-29", "0000-01-01"]


def places(v, path=()):
    yield path
    if isinstance(v, list):
        for i, x in enumerate(v):
            yield from places(x, path + (i,))
    if isinstance(v, dict):
        for k, x in v.items():
            yield from places(x, path + (k,))


ADDED = ["zz", "n1", "s1"]  # names of members; zinc adds none to an object with properties


def is_beyond(v):
    """Is there what zinc does not write by its documentation: long numbers, and members that were added here?"""
    if isinstance(v, list):
        return any(map(is_beyond, v))
    if isinstance(v, dict):
        return any(k in ADDED or is_beyond(x) for k, x in v.items())
    return isinstance(v, (int, float)) and (
        abs(v) >= 1e14 or len(written(v)) > 15 or (isinstance(v, float) and (v == 0 or v == int(v)))
    )


def changed_leaf(v, rng):
    if isinstance(v, bool) or v is None:
        return rng.choice([True, False, None, 0, "a"])
    if isinstance(v, (int, float)):
        return rng.choice([v + 1, v - 1, -v, v * 10, v // 10, v + 0.5, round(v + 0.01, 2), str(v), 0, None])
    if isinstance(v, str):
        at = rng.randrange(len(v) + 1)
        word = rng.choice(WORDS)
        return rng.choice(
            [v[:at] + word + v[at:], v[:at] + v[at + 1 :], v[:at] + word + v[at + 1 :], v + v, v[:-1], 1]
        )
    if isinstance(v, list):
        at = rng.randrange(len(v) + 1)
        return rng.choice(
            [v[:at] + v[at + 1 :], v + v[-1:], v[::-1], v[:at] + [rng.choice(GENERIC)] + v[at:], v[:-1], {}]
        )
    keys = list(v)
    gone = rng.choice(keys) if keys else None
    less = {k: x for k, x in v.items() if k != gone}
    return rng.choice([less, less, {**v, rng.choice(ADDED): rng.choice(GENERIC)}, [], {}])


def changed(v, rng):
    """The value with one place of it changed."""
    path = rng.choice(list(places(v)))
    v = copy.deepcopy(v)
    if not path:
        return changed_leaf(v, rng)
    at = v
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = changed_leaf(at[path[-1]], rng)
    return v


def numbers(n):
    """Bounds and multiples at random."""
    rng = random.Random(n)
    for i in range(n):
        places = rng.choice([0, 0, 1, 2, 3])
        low = round(rng.uniform(-120, 120), places)
        high = round(low + rng.choice([0.05, 1, 2.5, 30, 2000]) * rng.random() + 1, places)
        schema = {"type": rng.choice(["number", "number", "integer"])}
        if rng.random() < 0.8:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.8:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = high
        if rng.random() < 0.5:
            schema["multipleOf"] = rng.choice([0.01, 0.1, 0.5, 0.25, 1, 2, 5, 7, 0.05])
        yield Entry(
            "made.json", [f"{i} {json.dumps(schema)}", "", schema, {"may": ["multipleOf"], "near": [low, high]}]
        )


def compare(entry, match, seed, n_walks, n_changed, count):
    rng = random.Random(seed)
    said = match.schema(entry.schema)
    if entry.may and ("between the bounds" in said.get("refused", "") or said.get("warnings")):
        entry.warned = entry.may
        if "refused" in said:
            return
    if entry.refused or "refused" in said:
        count["refused"] += 1
        if not entry.refused or entry.refused not in said.get("refused", ""):
            miss(f"{entry.name}: expected to be refused: {entry.refused}; {said}")
        return
    for w in said["warnings"]:
        if not any(word in w for word in entry.warned):
            miss(f"{entry.name}: an unexpected warning: {w}")
    for word in entry.warned:
        if not any(word in w for w in said["warnings"]):
            miss(f"{entry.name}: no warning about {word}: {said['warnings']}")
    validator = validator_of(entry)
    values = list(GENERIC) + [
        round(v + d * f, 4) for v in entry.near for d in (0.005, 0.01, 0.05, 1, 7) for f in (-1, 0, 1)
    ]
    values += [int(v) for v in values if isinstance(v, float)]
    for text in match.walks(seed, n_walks):
        count["texts"] += 1
        try:
            v = parsed(text)
        except ValueError as e:
            miss(f"{entry.name}: the grammar has {text!r}: {e}")
            continue
        error = next(validator.iter_errors(v), None)
        if error:
            miss(f"{entry.name}: the grammar has {text!r}: {error.message}")
        values += [changed(v, rng) for _ in range(n_changed)] + [v]
    seen = set()
    for v in values:
        text = written(v)
        if text in seen:
            continue
        seen.add(text)
        yes, valid = match.has(text), validator.is_valid(v)
        count["valid" if valid else "invalid"] += 1
        if yes and not valid:
            miss(f"{entry.name}: the grammar has {text}: {next(validator.iter_errors(v)).message}")
        elif valid and not yes and not entry.narrow and not is_beyond(v):
            miss(f"{entry.name}: the grammar lacks {text}")


def grammar(path, n_walks=12, n_changed=3):
    match = Match(path)
    count = dict.fromkeys(("schemas", "refused", "texts", "valid", "invalid"), 0)
    for i, entry in enumerate(entries()):
        count["schemas"] += 1
        compare(entry, match, i + 1, n_walks, n_changed, count)
    for i, entry in enumerate(numbers(300)):
        compare(entry, match, i + 1, 6, 1, count)
    print(
        "{schemas} schemas ({refused} refused as expected), and 300 bounds of numbers: {texts} random texts; "
        "{valid} valid values and {invalid} invalid ones "
        "compared".format(**count)
    )


# ---- a model's answers --------------------------------------------------------------------------------------

SIDE_BY_SIDE = 16  # requests, as many as the server has slots
MOST_CUT = 0.05  # of the answers may end by max_tokens


class Refused(Exception):
    pass


def post(url, body):
    request = urllib.request.Request(
        url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        return urllib.request.urlopen(request, timeout=1200)
    except urllib.error.HTTPError as e:
        raise Refused(json.load(e)["error"]["message"])


def asked(ask, **more):
    return {"messages": [{"role": "user", "content": ask}], "max_tokens": 150, **more}


def form(entry, strict):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": strict, "schema": entry.schema}}


def side_by_side(f, items):
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(f, items))


def one_answer(url, entry, temperature, seed):
    body = asked(
        entry.ask + " Answer in JSON.",
        temperature=temperature,
        seed=seed,
        response_format=form(entry, not entry.warned),
    )
    try:
        with post(url, body) as r:
            return entry, temperature, json.load(r), None
    except Refused as e:
        return entry, temperature, None, str(e)


def check_answer(entry, answer, refusal, match, count):
    if entry.refused:
        if entry.refused not in (refusal or ""):
            miss(f"{entry.name}: expected to be refused: {entry.refused}; {refusal}")
        return
    if refusal:
        return miss(f"{entry.name}: refused: {refusal}")
    warnings = answer.get("warnings", [])
    if bool(warnings) != bool(entry.warned):
        miss(f"{entry.name}: warnings {warnings}, expected about {entry.warned}")
    choice = answer["choices"][0]
    text, why = choice["message"]["content"], choice["finish_reason"]
    count["tokens"] += answer["usage"]["completion_tokens"]
    count[why] = count.get(why, 0) + 1
    if why == "length":
        match.schema(entry.schema)
        if not match.has_prefix(text):
            miss(f"{entry.name}: cut off, and no answer begins so: {text!r}")
        return
    if why != "stop":
        return miss(f"{entry.name}: finish_reason {why}")
    try:
        error = next(validator_of(entry).iter_errors(parsed(text)), None)
    except ValueError as e:
        return miss(f"{entry.name}: {text!r}: {e}")
    if error:
        miss(f"{entry.name}: {text!r}: {error.message}")


def refused_if_strict(url, entry):
    try:
        post(url, asked(entry.ask, max_tokens=1, response_format=form(entry, True))).close()
        miss(f"{entry.name}: strict, and not refused: {entry.warned}")
    except Refused as e:
        if not any(word in str(e) for word in entry.warned):
            miss(f"{entry.name}: strict, and refused for something else than {entry.warned}: {e}")


def one_free_answer(url, entry):
    """The same question without a grammar, the schema in words: what the model makes of it."""
    ask = f"{entry.ask} Answer in JSON by this schema, with nothing else: {json.dumps(entry.schema)}"
    with post(url, asked(ask, temperature=0, max_tokens=60)) as r:
        text = json.load(r)["choices"][0]["message"]["content"]
    fenced = re.search(r"```(?:json)?\n(.*?)```", text, re.DOTALL)
    text = fenced.group(1) if fenced else text
    try:
        return validator_of(entry).is_valid(parsed(text))
    except ValueError:
        return False


def answers(url, path):
    match, all_entries = Match(path), entries()
    jobs = [(e, t) for e in all_entries for t in ((0,) if e.refused else (0, 1))]
    said = side_by_side(lambda job: one_answer(url, *job[1], seed=job[0]), enumerate(jobs))
    count = {"tokens": 0, "stop": 0, "length": 0}
    for entry, temperature, answer, refusal in said:
        check_answer(entry, answer, refusal, match, count)
        if os.environ.get("SHOW") and answer:
            print(
                entry.name,
                temperature,
                answer["choices"][0]["finish_reason"],
                answer["choices"][0]["message"]["content"][:150],
            )
    side_by_side(lambda e: refused_if_strict(url, e), [e for e in all_entries if e.warned])
    if count["length"] > MOST_CUT * len(said):
        miss(f"{count['length']} of {len(said)} answers were cut off")
    sample = [e for e in all_entries if not e.refused and not e.warned][::12]
    free = side_by_side(lambda e: one_free_answer(url, e), sample)
    print(
        f"{len(all_entries)} schemas: {count['stop']} answers, {count['length']} cut off by max_tokens, "
        f"{count['tokens']} tokens; "
        f"without a grammar {sum(free)} of {len(free)} are valid"
    )


# ---- calls of tools -----------------------------------------------------------------------------------------

# Formats of calls by what zinc finds in a template, and the marks of each that are tokens of their own; they take the
# places of tokens that SmolLM2 has for source code. `template` is a text with what tells the format apart.
MARK_ID = 3  # the first of those places
QUESTIONS = 3  # of each format
CALLS = {
    "hermes": {"begin": "<tool_call>", "template": "<|im_start|>", "marks": ["<tool_call>", "</tool_call>"]},
    "qwen3": {
        "begin": "<tool_call>",
        "template": "<|im_start|> <think> enable_thinking",
        "marks": ["<tool_call>", "</tool_call>", "<think>", "</think>"],
    },
    "qwen3-coder": {
        "begin": "<tool_call>",
        "template": "<|im_start|> <function=",
        "marks": ["<tool_call>", "</tool_call>"],
    },
    "qwen3.5": {
        "begin": "<tool_call>",
        "template": "<|im_start|> <function= <think> enable_thinking is true",
        "marks": ["<tool_call>", "</tool_call>", "<think>", "</think>"],
    },
    "llama3.1": {
        "begin": "<|python_tag|>",
        "template": "<|start_header_id|> Cutting Knowledge Date",
        "marks": ["<|python_tag|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"],
    },
    "gpt-oss": {
        "begin": None,
        "template": "<|channel|> <|start|>",
        "marks": ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"],
    },
    "gemma4": {
        "begin": "<|tool_call>",
        "template": "<|turn>",
        "marks": [
            "<|tool_call>",
            "<tool_call|>",
            '<|"|>',
            "<|turn>",
            "<turn|>",
            "<|channel>",
            "<channel|>",
            "<|tool>",
            "<tool|>",
            "<|tool_response>",
            "<tool_response|>",
            "<|think|>",
        ],
    },
}
GGUF_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
GGUF_STRING, GGUF_ARRAY = 8, 9


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_skip(d, at, kind):
    if kind == GGUF_STRING:
        return at + 8 + struct.unpack_from("<Q", d, at)[0]
    if kind != GGUF_ARRAY:
        return at + GGUF_SIZES[kind]
    inner, n = struct.unpack_from("<IQ", d, at)
    at += 12
    if inner != GGUF_STRING:
        return at + n * GGUF_SIZES[inner]
    for _ in range(n):
        at = gguf_skip(d, at, GGUF_STRING)
    return at


def with_marks(d, at, marks):
    """An array of tokens, those from MARK_ID on replaced."""
    n = struct.unpack_from("<Q", d, at + 4)[0]
    out, at = [d[at : at + 12]], at + 12
    for i in range(n):
        end = gguf_skip(d, at, GGUF_STRING)
        ours = MARK_ID <= i < MARK_ID + len(marks)
        out.append(gguf_string(marks[i - MARK_ID]) if ours else d[at:end])
        at = end
    return b"".join(out)


def vocabulary(path, to, name, template):
    """A copy of a GGUF file with this template (a file, or - for one of ours) and the marks of the format."""
    d, format = open(path, "rb").read(), CALLS[name]
    text = format["template"] if template == "-" else open(template).read()
    n_tensors, n_keys = struct.unpack_from("<QQ", d, 8)
    head, at = [d[:24]], 24
    for _ in range(n_keys):
        n = struct.unpack_from("<Q", d, at)[0]
        key, value = d[at + 8 : at + 8 + n].decode(), at + 12 + n
        end = gguf_skip(d, value, struct.unpack_from("<I", d, value - 4)[0])
        said = {
            "tokenizer.chat_template": lambda: gguf_string(text),
            "tokenizer.ggml.tokens": lambda: with_marks(d, value, format["marks"]),
        }.get(key, lambda: d[value:end])()
        head.append(d[at:value] + said)
        at = end
    begin = at
    for _ in range(n_tensors):
        at = gguf_skip(d, at, GGUF_STRING)
        at += 4 + 8 * struct.unpack_from("<I", d, at)[0] + 4 + 8
    head.append(d[begin:at])
    data = b"".join(head)
    with open(to, "wb") as f:
        f.write(data + bytes(-len(data) % 32) + d[at + -at % 32 :])


def stream_of(r):
    """The message that the chunks of a stream make, and its finish_reason."""
    message, why = {"content": None, "tool_calls": []}, None
    for line in r:
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        for choice in chunk.get("choices", []):
            delta, why = choice["delta"], choice["finish_reason"] or why
            if delta.get("content"):
                message["content"] = (message["content"] or "") + delta["content"]
            for call in delta.get("tool_calls", []):
                if call["index"] == len(message["tool_calls"]):
                    message["tool_calls"].append({"name": call["function"]["name"], "arguments": ""})
                message["tool_calls"][call["index"]]["arguments"] += call["function"].get("arguments") or ""
    return message, why


def whole_of(r):
    choice = json.load(r)["choices"][0]
    said = choice["message"]
    functions = [c["function"] for c in said.get("tool_calls") or []]
    return {
        "content": said["content"],
        "tool_calls": [{k: f[k] for k in ("name", "arguments")} for f in functions],
    }, choice["finish_reason"]


def tool_of(row, strict):
    return {
        "type": "function",
        "function": {"name": row[0], "description": row[1], "strict": strict, "parameters": row[2]},
    }


def call_request(name, rows, i):
    """One question, with the tool that answers it and another; a call is required, named or free by turns."""
    row, other = rows[i], rows[(i + 3) % len(rows)]
    way = ("required", "named", "auto")[(i + list(CALLS).index(name)) % 3]
    if way == "auto" and not CALLS[name]["begin"]:
        way = "required"
    body = asked(
        row[1],
        max_tokens=120,
        tools=[tool_of(row, i % 2 == 0), tool_of(other, False)],
        temperature=i % 2,
        seed=i,
        enable_thinking=False,
        parallel_tool_calls=way == "required",
    )
    body["tool_choice"] = {"type": "function", "function": {"name": row[0]}} if way == "named" else way
    if way == "auto":  # the model would rather talk: its first token is the mark of a call
        body["logit_bias"] = {str(MARK_ID): 100}
    return way, body


def check_call(name, rows, way, body, said, why, count):
    what = f"{name}, {way}, {body['messages'][0]['content']}"
    allowed = {t["function"]["name"]: t["function"]["parameters"] for t in body["tools"]}
    whole = said["tool_calls"]
    if why == "length":
        count["length"] += not body["parallel_tool_calls"]  # of several calls, this model makes more and more
        whole = whole[:-1]
    elif why != "tool_calls" or not whole:
        miss(f"{what}: finish_reason {why}: {said}")
    if len(whole) > 1 and not body["parallel_tool_calls"]:
        miss(f"{what}: several calls: {said}")
    for call in whole:
        count["calls"] += 1
        if call["name"] not in allowed or (
            way == "named" and call["name"] != body["tool_choice"]["function"]["name"]
        ):
            miss(f"{what}: a call of {call['name']}")
            continue
        validator = validators.Draft202012Validator(allowed[call["name"]], format_checker=FORMAT_CHECKER)
        try:
            error = next(validator.iter_errors(parsed(call["arguments"])), None)
        except ValueError as e:
            miss(f"{what}: {call}: {e}")
            continue
        if error:
            miss(f"{what}: {call}: {error.message}")


def one_call(url, name, rows, i):
    way, body = call_request(name, rows, i)
    try:
        with post(url, body) as r:
            whole = whole_of(r)
        with post(url, {**body, "stream": True}) as r:
            return way, body, whole, stream_of(r)
    except Refused as e:
        return way, body, None, str(e)


def calls(url, name):
    rows = json.load(open(HERE + "/schemas/tools.json"))
    count = {"calls": 0, "length": 0}
    first = list(CALLS).index(name)
    mine = [(first + i) % len(rows) for i in range(QUESTIONS)]  # other ones for each format
    for way, body, whole, streamed in side_by_side(lambda i: one_call(url, name, rows, i), mine):
        if not whole:
            miss(f"{name}, {way}: refused: {streamed}")
            continue
        if whole != streamed:
            miss(f"{name}, {way}: whole {whole}, streamed {streamed}")
        check_call(name, rows, way, body, *whole, count)
        if os.environ.get("SHOW"):
            print(name, way, whole)
    if count["length"] > 2:
        miss(f"{name}: {count['length']} of {len(mine)} answers were cut off")
    print(f"{name}: {len(mine)} questions, {count['calls']} calls, {count['length']} cut off; streams are the same")


if __name__ == "__main__":
    command, args = sys.argv[1], sys.argv[2:]
    globals()[command](*args)
    sys.exit(1 if misses else 0)
