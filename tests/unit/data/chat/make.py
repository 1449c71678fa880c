#!/usr/bin/env python3
"""Writes the *.json files beside it: conversations and what the families' own Jinja templates make of them.

    tests/unit/data/chat/make.py DIR      DIR holds the templates as ggml-org/llama.cpp names them in models/templates,
                                          and google-gemma-3.jinja (tokenizer_config.json of google/gemma-3-*-it)

Renders as transformers does (trim_blocks, lstrip_blocks, tojson without escapes), with an empty bos_token."""
import json
import os
import sys

import jinja2
import jinja2.sandbox

TEMPLATES = {
    'chatml': None,
    'qwen3': 'Qwen-Qwen3-0.6B.jinja',
    'qwen3-coder': 'Qwen3-Coder.jinja',
    'qwen3.5': 'Qwen3.5-4B.jinja',
    'llama3': None,
    'llama3.1': 'meta-llama-Llama-3.1-8B-Instruct.jinja',
    'gpt-oss': 'openai-gpt-oss-120b.jinja',
    'gemma3': 'google-gemma-3.jinja',
    'gemma4': 'google-gemma-4-31B-it.jinja',
}
INLINE = {
    'chatml': "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    'llama3': "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + "
              "'<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
}
NO_TOOLS = ('chatml', 'llama3', 'gemma3')

WEATHER = {'type': 'function', 'function': {
    'name': 'get_weather', 'description': 'Weather at a place.',
    'parameters': {'type': 'object', 'properties': {
        'city': {'type': 'string', 'description': 'Name of the "city", e.g. Zürich'},
        'unit': {'type': 'string', 'enum': ['celsius', 'fahrenheit'], 'default': 'celsius'},
        'days': {'type': 'integer', 'description': 'How many', 'default': 1}},
        'required': ['city']}}}
NOW = {'type': 'function', 'function': {
    'name': 'now', 'description': 'The time.', 'parameters': {'type': 'object', 'properties': {}}}}
SEARCH = {'type': 'function', 'function': {
    'name': 'search', 'description': 'Finds things & <more>.',
    'parameters': {'type': 'object', 'properties': {
        'tags': {'type': 'array', 'items': {'type': 'string'}, 'description': 'Any of'},
        'filter': {'type': 'object', 'properties': {
            'min': {'type': 'number'}, 'exact': {'type': 'boolean', 'nullable': True}, 'name': {'type': 'string'}},
            'required': ['min']},
        'points': {'type': 'array', 'items': {'type': 'object', 'properties': {
            'x': {'type': 'integer'}, 'y': {'type': 'integer'}}, 'required': ['x', 'y']}},
        'maybe': {'type': 'string', 'nullable': True}},
        'required': ['tags', 'filter']}}}


def call(name, args, id='call_1'):
    return {'id': id, 'type': 'function', 'function': {'name': name, 'arguments': args}}


SYS = {'role': 'system', 'content': ' Be brief.\n'}
Q1 = {'role': 'user', 'content': 'Hello\n there '}
A1 = {'role': 'assistant', 'content': 'Hi.'}
Q2 = {'role': 'user', 'content': 'What is 2+2?'}
A2R = {'role': 'assistant', 'content': 'Four.', 'reasoning_content': 'Add two\nand two.'}
A2T = {'role': 'assistant', 'content': '<think>\nAdd them.\n</think>\n\nFour.'}
QW = {'role': 'user', 'content': 'Weather in Zürich?'}
CW = {'role': 'assistant', 'content': '', 'tool_calls': [call('get_weather', {'city': 'Zürich', 'days': 2})]}
CWR = {'role': 'assistant', 'content': '', 'reasoning_content': 'I should look.',
       'tool_calls': [call('get_weather', {'city': 'Zürich'})]}
CWC = {'role': 'assistant', 'content': 'Let me look.', 'tool_calls': [call('get_weather', {'city': 'Z"\\\n'})]}
CC = {'role': 'assistant', 'content': '', 'tool_calls': [
    call('now', {}, 'call_1'),
    call('search', {'tags': ['a', 'b'], 'filter': {'min': 3, 'exact': True}, 'maybe': None}, 'call_2')]}
RW = {'role': 'tool', 'content': '{"temp": 21, "sky": "clear"}', 'tool_call_id': 'call_1', 'name': 'get_weather'}
R1 = {'role': 'tool', 'content': 'noon', 'tool_call_id': 'call_1', 'name': 'now'}
R2 = {'role': 'tool', 'content': ' nothing\n', 'tool_call_id': 'call_2', 'name': 'search'}
AW = {'role': 'assistant', 'content': 'It is 21 degrees.'}
AWR = {'role': 'assistant', 'content': 'It is 21 degrees.', 'reasoning_content': 'Read it out.'}

CASES = [  # name, messages, tools, generation prompt, which settings of enable_thinking
    ('one question', [Q1], None, True, (None, True, False)),
    ('with system', [SYS, Q1], None, True, (None, True, False)),
    ('several turns', [SYS, Q1, A1, Q2], None, True, (None,)),
    ('ends with the assistant', [Q1, A1], None, False, (None,)),
    ('reasoning in history', [Q1, A2R, Q2], None, True, (None,)),
    ('reasoning inside the content', [Q1, A2T, Q2], None, True, (None,)),
    ('reasoning in the last answer', [Q2, A2R], None, False, (None,)),
    ('tools offered', [QW], [WEATHER], True, (None, True)),
    ('tools offered beside a system text', [SYS, QW], [WEATHER, NOW, SEARCH], True, (None, False)),
    ('a call and its result', [QW, CW, RW], [WEATHER], True, (None,)),
    ('a call after reasoning', [QW, CWR, RW], [WEATHER], True, (None,)),
    ('a call after words', [SYS, QW, CWC, RW], [WEATHER], True, (None,)),
    ('a call without its result', [QW, CW], [WEATHER], True, (None,)),
    ('two calls at once', [QW, CC, R1, R2], [NOW, SEARCH], True, (None,)),
    ('calls, an answer, a new question', [QW, CWR, RW, AWR, Q2], [WEATHER], True, (None,)),
    ('a second call', [QW, CWR, RW, CWR, RW], [WEATHER], True, (None,)),
    ('an answer after the result', [QW, CWR, RW, AW], [WEATHER], False, (None,)),
]


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=['jinja2.ext.loopcontrols'])

    def fail(text):
        raise jinja2.exceptions.TemplateError(text)

    env.filters['tojson'] = lambda v, indent=None: json.dumps(v, ensure_ascii=False, indent=indent)
    env.globals['raise_exception'] = fail
    env.globals['strftime_now'] = lambda f: '2025-08-01' if f == '%Y-%m-%d' else '26 Jul 2024'
    return env


def for_template(fmt, messages):
    """What llama.cpp hands to the template: gpt-oss wants its reasoning as `thinking`, and no content beside it."""
    out = []
    for m in json.loads(json.dumps(messages)):
        if fmt == 'gpt-oss' and 'reasoning_content' in m:
            m['thinking'] = m.pop('reasoning_content')
            if 'tool_calls' in m:
                del m['content']
        out.append(m)
    return out


def for_test(messages):
    """Calls as an API passes them: arguments are JSON text."""
    out = json.loads(json.dumps(messages))
    for m in out:
        for c in m.get('tool_calls', []):
            c['function']['arguments'] = json.dumps(c['function']['arguments'], ensure_ascii=False)
    return out


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for fmt, file in TEMPLATES.items():
        source = INLINE[fmt] if not file else open(os.path.join(sys.argv[1], file)).read()
        template = environment().from_string(source)
        cases = []
        for name, messages, tools, gen, settings in CASES:
            if tools and fmt in NO_TOOLS:
                continue
            for think in settings:
                extra = {} if think is None else {'enable_thinking': think}
                if tools:
                    extra['tools'] = tools
                case = {'name': name, 'messages': for_test(messages), 'add_generation_prompt': gen}
                if think is not None:
                    case['enable_thinking'] = think
                if tools:
                    case['tools'] = tools
                try:
                    case['text'] = template.render(messages=for_template(fmt, messages), add_generation_prompt=gen,
                                                   bos_token='', **extra)
                except jinja2.exceptions.TemplateError as e:
                    case['error'] = str(e)
                cases.append(case)
        with open(os.path.join(here, fmt + '.json'), 'w') as f:
            f.write('[\n' + ',\n'.join(json.dumps(c, ensure_ascii=False) for c in cases) + '\n]\n')
        print('%s: %d cases, %d errors' % (fmt, len(cases), sum('error' in c for c in cases)))


main()
