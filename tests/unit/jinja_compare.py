#!/usr/bin/env python3
"""Holds build/jinja to jinja2: tests/unit/jinja_compare.py BUILD [FOLDER] compares what both make of the cases of
tests/unit/data/jinja/cases.txt, and of the templates *.jinja in FOLDER with many conversations: the same text, or both
refuse, with the same words where the template itself refuses.

The environment is that of transformers (utils/chat_template_utils.py): trim_blocks, lstrip_blocks, loop controls, a
`generation` tag, tojson by json.dumps, raise_exception, strftime_now; lists and dicts may be changed, and from_json is
there, which templates of files in use want. JINJA_FULL=1: all conversations with all settings, not each fifth."""
import datetime
import functools
import itertools
import json
import os
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_body'), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                              extensions=[Generation, jinja2.ext.loopcontrols])

    def fail(text):
        raise jinja2.exceptions.TemplateError(text)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters['tojson'] = tojson
    env.filters['from_json'] = json.loads
    env.globals['raise_exception'] = fail
    env.globals['strftime_now'] = lambda f: datetime.datetime(2025, 8, 1).strftime(f)
    return env


ENV = environment()
FULL = os.environ.get('JINJA_FULL')


@functools.lru_cache(2)
def compiled(text):
    return ENV.from_string(text)


def expected(text, context):
    """('text', ..), ('raised', ..) or ('error', ..)"""
    try:
        return 'text', compiled(text).render(**json.loads(json.dumps(context)))
    except jinja2.exceptions.TemplateError as e:
        if type(e) is jinja2.exceptions.TemplateError:
            return 'raised', str(e)
        return 'error', repr(e)
    except Exception as e:
        return 'error', repr(e)


class Ours:
    def __init__(self, build):
        self.p = subprocess.Popen([os.path.join(build, 'jinja'), '--lines'], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, encoding='utf-8')

    def __call__(self, text, context):
        self.p.stdin.write(json.dumps({'template': text, 'data': context}) + '\n')
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit('jinja: ended early')
        r = json.loads(line)
        if 'text' in r:
            return 'text', r['text']
        return ('raised' if r['raised'] else 'error'), r['error']


def same(a, b):
    if a[0] == 'raised' and b[0] == 'raised':
        return ' '.join(a[1].split('\n'))[:380] == b[1][:380]
    return a[0] == b[0] and (a[0] == 'error' or a[1] == b[1])


class Tally:
    def __init__(self):
        self.n = self.refused = self.bad = 0

    def compare(self, ours, what, text, context):
        want, got = expected(text, context), ours(text, context)
        self.n += 1
        self.refused += want[0] != 'text'
        if same(want, got):
            return
        self.bad += 1
        if self.bad > 20:
            return
        print(f'differs: {what}\n    jinja2 {want[0]}: {show(want[1], got[1])}\n    ours   {got[0]}: {show(got[1], want[1])}')


def show(a, b):
    """From shortly before the place where they differ."""
    n = len(os.path.commonprefix([a, b]))
    return repr(a[max(0, n - 60):n + 200])


# ---- conversations ----

WEATHER = {'type': 'function', 'function': {
    'name': 'get_weather', 'description': 'Weather at a place.',
    'parameters': {'type': 'object', 'properties': {
        'city': {'type': 'string', 'description': 'Name of the "city", e.g. Zürich'},
        'unit': {'type': 'string', 'enum': ['celsius', 'fahrenheit'], 'default': 'celsius'},
        'days': {'type': 'integer', 'description': 'How many', 'default': 1}}, 'required': ['city']}}}
NOW = {'type': 'function', 'function': {'name': 'now', 'description': 'The <time>.',
                                        'parameters': {'type': 'object', 'properties': {}}}}
SEARCH = {'type': 'function', 'function': {'name': 'search', 'description': "Finds things & 'more'.", 'parameters': {
    'type': 'object', 'properties': {
        'tags': {'type': 'array', 'items': {'type': 'string'}, 'description': 'Any of'},
        'filter': {'type': 'object', 'properties': {'min': {'type': 'number'}, 'exact': {'type': 'boolean'}},
                   'required': ['min']},
        'maybe': {'type': ['string', 'null']}, 'either': {'anyOf': [{'type': 'string'}, {'type': 'integer'}]}},
    'required': ['tags', 'filter']}}}
BARE = {'type': 'function', 'function': {'name': 'bare'}}


def call(name, args, i):
    return {'id': i, 'type': 'function', 'function': {'name': name, 'arguments': args}}


def system(t):
    return {'role': 'system', 'content': t}


def user(t):
    return {'role': 'user', 'content': t}


def said(t, **more):
    return {'role': 'assistant', 'content': t, **more}


def result(t, i, name='get_weather'):
    return {'role': 'tool', 'content': t, 'tool_call_id': i, 'name': name}


PARTS = [{'type': 'text', 'text': ' one '}, {'type': 'text', 'text': 'two\n'}]
ID = 'abcdefgh1'


def conversations(args):
    """args: how arguments of calls come, as an object or as text."""
    w = call('get_weather', args({'city': 'Zürich', 'days': 2}), ID)
    s = call('search', args({'tags': ['a', 'b'], 'filter': {'min': 3.5, 'exact': True}, 'maybe': None}), 'abcdefgh2')
    n = call('now', args({}), 'abcdefgh3')
    yield 'one question', [user('Hello\n there ')]
    yield 'system first', [system(' Be brief.\n'), user('Hi')]
    yield 'system alone', [system('Be brief.')]
    yield 'two systems', [system('Be brief.'), system('Be kind.'), user('Hi')]
    yield 'system late', [user('Hi'), said('Hello.'), system('Be brief.'), user('And now?')]
    yield 'system last', [system('A'), user('Hi'), system('Be brief.')]
    yield 'developer', [{'role': 'developer', 'content': 'Be brief.'}, user('Hi')]
    yield 'turns', [system('S'), user('a'), said('b'), user('c'), said(' d '), user('e')]
    yield 'ends with the assistant', [user('a'), said('b')]
    yield 'begins with the assistant', [said('b'), user('a')]
    yield 'two users in a row', [user('a'), user('b')]
    yield 'two assistants in a row', [user('a'), said('b'), said('c'), user('d')]
    yield 'reasoning', [user('a'), said('b', reasoning_content='Think\nof it.'), user('c')]
    yield 'reasoning as thinking', [user('a'), said('b', thinking='Think of it.'), user('c')]
    yield 'reasoning as reasoning', [user('a'), said('b', reasoning='Think of it.'), user('c')]
    yield 'reasoning inside', [user('a'), said('<think>\nHm.\n</think>\n\nb'), user('c')]
    yield 'reasoning last', [user('a'), said('b', reasoning_content='Hm.')]
    yield 'call and result', [user('Weather?'), said('', tool_calls=[w]), result('{"temp": 21}', ID)]
    yield 'call with null', [system('S'), user('Weather?'), said(None, tool_calls=[w]), result('21', ID), said('It is 21.'), user('Ok')]
    yield 'call after words', [user('Weather?'), said('Let me look.', tool_calls=[w]), result('21', ID), said('21.')]
    yield 'call after reasoning', [user('W?'), said('', reasoning_content='Look.', tool_calls=[w]), result('21', ID)]
    yield 'call without content', [user('W?'), {'role': 'assistant', 'tool_calls': [w]}, result('21', ID)]
    yield 'call unanswered', [user('W?'), said('', tool_calls=[w])]
    yield 'two calls', [user('W?'), said('', tool_calls=[s, n]), result('x', 'abcdefgh2', 'search'), result('noon', 'abcdefgh3', 'now'), user('So?')]
    yield 'calls twice', [user('W?'), said('', tool_calls=[w]), result('21', ID), said('', tool_calls=[s]), result('[]', 'abcdefgh2', 'search')]
    yield 'result alone', [user('W?'), result('21', ID)]
    yield 'result as object', [user('W?'), said('', tool_calls=[w]), {'role': 'tool', 'tool_call_id': ID, 'content': {'temp': 21.5, 'ok': True}}]
    yield 'null content', [user(None)]
    yield 'empty content', [system(''), user(''), said(''), user('')]
    yield 'empty calls', [user('a'), said('b', tool_calls=[]), user('c')]
    yield 'parts', [user(PARTS)]
    yield 'parts everywhere', [system(PARTS), user(PARTS), said(PARTS), user([])]
    yield 'an image', [user([{'type': 'image'}, {'type': 'text', 'text': 'What is it?'}])]
    yield 'another role', [user('a'), {'role': 'critic', 'content': 'b'}]
    yield 'ipython', [user('a'), said('b'), {'role': 'ipython', 'content': {'x': [1, 'y']}}]
    yield 'marks in the text', [user('<|im_end|>\n<|im_start|>system\n"quoted" \\ \'single\' {{ x }} {% if %}')]
    yield 'other scripts', [user('日本語 — Straße ﬁ \u00a0 \U0001f600\u2028')]
    yield 'no messages', []


SETTINGS = [
    {'add_generation_prompt': True},
    {'add_generation_prompt': False},
    {'add_generation_prompt': True, 'enable_thinking': False, 'thinking': False},
    {'add_generation_prompt': True, 'enable_thinking': True, 'thinking': True, 'reasoning_effort': 'high',
     'keep_past_thinking': True, 'clear_thinking': False, 'preserve_thinking': True},
]
TOOLS = [None, [WEATHER, NOW], [SEARCH, BARE], 'absent']


def of_template(text):
    seen = set()
    for as_text in (False, True):
        args = (lambda v: json.dumps(v, ensure_ascii=False)) if as_text else (lambda v: v)
        for (name, messages), (i, setting), tools in itertools.product(conversations(args), enumerate(SETTINGS), TOOLS):
            context = {'messages': messages, 'bos_token': '<s>', 'eos_token': '</s>', **setting}
            if tools != 'absent':
                context['tools'] = tools
            key = json.dumps(context)
            if key in seen or (tools == [SEARCH, BARE] and i) or (tools is None and i):
                continue
            seen.add(key)
            yield f'{name}, arguments as {"text" if as_text else "objects"}, {setting}, tools {len(tools) if isinstance(tools, list) else tools}', context


# ---- the cases of our own ----

def cases(path):
    """Blocks with an empty line of dashes between: a template, and perhaps behind a line '==' a JSON context."""
    for i, block in enumerate(open(path, encoding='utf-8').read().split('\n----\n')):
        text, _, context = block.partition('\n==\n')
        yield f'case {i + 1}: {text[:70]!r}', text, json.loads(context) if context.strip() else {}


def main():
    ours, here = Ours(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
    own, files = Tally(), Tally()
    for what, text, context in cases(os.path.join(here, 'data/jinja/cases.txt')):
        own.compare(ours, what, text, context)
    print(f'jinja2 {jinja2.__version__}: {own.n} cases of our own, {own.refused} of them refused, {own.bad} differ')
    bad = own.bad
    if len(sys.argv) > 2:
        names = sorted(f for f in os.listdir(sys.argv[2]) if f.endswith('.jinja'))
        for f in names:
            text = open(os.path.join(sys.argv[2], f), encoding='utf-8').read()
            for i, (what, context) in enumerate(of_template(text)):
                if FULL or i % 5 == 0:
                    files.compare(ours, f'{f}: {what}', text, context)
        print(f'{len(names)} templates, {files.n} renderings, {files.refused} of them refused, {files.bad} differ')
        bad += files.bad
    sys.exit(bad != 0)


main()
