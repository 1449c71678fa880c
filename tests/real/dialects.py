"""tests/real/dialects.py URL KEY: clients that are not ours and do not speak chat completions, against a running `zinc serve`
that asks for KEY. A line for each check; exit 1 where one missed.

    anthropic   messages, streams and their helper, tools, thinking, tokens, errors by class
    openai      responses: texts, streams and their helper, functions, parsed forms, going on, errors
    ollama      chat, generate, streams, tools, forms, list, show, ps, errors
"""
import json
import os
import sys
import traceback

os.environ.update(NO_PROXY="*", OPENAI_API_KEY="not-this-one", ANTHROPIC_API_KEY="not-this-one")

import anthropic
import ollama
import openai
import pydantic

URL, KEY = sys.argv[1:3]
claude = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=600)
gpt = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=600)
llama = ollama.Client(host=URL, headers={"Authorization": "Bearer " + KEY}, timeout=600)
MODEL = gpt.models.list().data[0].id
question = "What is 2 + 3?"
hello = [{"role": "user", "content": question}]
schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}
tests = []


def test(f):
    tests.append(f)
    return f


def fails(cls, status, f):
    try:
        f()
    except cls as e:
        got = getattr(e, "status_code", None)
        assert got == status, f"status {got}, expected {status}: {e}"
        return e
    raise AssertionError(f"expected {cls.__name__}, but it went well")


# ---- anthropic ----

ask = dict(model=MODEL, max_tokens=24, messages=hello, extra_body={"temperature": 0})
weather = {"name": "weather", "description": "Tells the weather", "input_schema": schema}


@test
def messages():
    m = claude.messages.create(**ask, system="You are a helpful assistant.")
    assert m.role == "assistant" and m.content[0].type == "text" and m.content[0].text, m
    assert m.stop_reason in ("end_turn", "max_tokens") and m.usage.output_tokens > 0, m
    again = claude.messages.create(**ask, system="You are a helpful assistant.")
    assert again.content == m.content and again.usage.cache_read_input_tokens > 0, again.usage
    assert again.usage.cache_read_input_tokens + again.usage.input_tokens == m.usage.input_tokens + m.usage.cache_read_input_tokens
    n = claude.messages.count_tokens(model=MODEL, messages=hello, system="You are a helpful assistant.").input_tokens
    assert n == m.usage.input_tokens + m.usage.cache_read_input_tokens, (n, m.usage)


@test
def messages_accounting_is_passed_over():
    said = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=%s;"}, {"type": "text", "text": "Be brief. " * 20}]
    of = lambda cch: claude.messages.create(**ask, system=[{"type": "text", "text": said[0]["text"] % cch}, said[1]]).usage
    of("aaaaa")
    second = of("bbbbb")
    assert second.cache_read_input_tokens > second.input_tokens, second


@test
def messages_stream():
    whole = claude.messages.create(**ask)
    with claude.messages.stream(**ask) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    assert text == whole.content[0].text and final.content[0].text == text, (text, whole)
    assert final.stop_reason == whole.stop_reason and final.usage.output_tokens == whole.usage.output_tokens
    types = [e.type for e in claude.messages.create(**ask, stream=True)]
    assert types[0] == "message_start" and types[-2:] == ["message_delta", "message_stop"], types


@test
def messages_tools():
    forced = dict(ask, max_tokens=200, tools=[weather], tool_choice={"type": "any"})
    m = claude.messages.create(**forced)
    call = next(b for b in m.content if b.type == "tool_use")
    assert m.stop_reason == "tool_use" and call.name == "weather" and call.input["city"] in ("Rome", "Oslo"), m
    with claude.messages.stream(**forced) as s:
        streamed = s.get_final_message()
    assert [b.input for b in streamed.content if b.type == "tool_use"] == [b.input for b in m.content if b.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    more = hello + [{"role": "assistant", "content": m.content}, {"role": "user", "content": [result]}]
    assert claude.messages.create(**dict(ask, messages=more, tools=[weather])).content


@test
def messages_thinking():
    m = claude.messages.create(**dict(ask, max_tokens=300, thinking={"type": "enabled", "budget_tokens": 1024}))
    assert m.content[0].type == "thinking" and m.content[0].thinking, m
    with claude.messages.stream(**dict(ask, max_tokens=300, thinking={"type": "enabled", "budget_tokens": 1024})) as s:
        assert s.get_final_message().content[0].thinking == m.content[0].thinking


@test
def messages_stop():
    whole = claude.messages.create(**ask).content[0].text
    m = claude.messages.create(**ask, stop_sequences=[whole[3:6]])
    assert m.stop_reason == "stop_sequence" and m.stop_sequence == whole[3:6] and m.content[0].text == whole[:whole.index(whole[3:6])], m


@test
def messages_errors():
    e = fails(anthropic.BadRequestError, 400, lambda: claude.messages.create(**dict(ask, messages=[])))
    assert e.body["error"]["type"] == "invalid_request_error", e.body
    picture = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}]
    fails(anthropic.BadRequestError, 400, lambda: claude.messages.create(**dict(ask, messages=[{"role": "user", "content": picture}])))
    fails(anthropic.AuthenticationError, 401, lambda: claude.with_options(api_key="wrong").messages.create(**ask))
    e = fails(anthropic.BadRequestError, 400, lambda: claude.messages.create(**dict(ask, messages=[{"role": "user", "content": "word " * 5000}])))
    assert "prompt is too long" in str(e), e


# ---- openai ----

respond = dict(model=MODEL, input=question, max_output_tokens=24, temperature=0, reasoning={"effort": "none"})
function = {"type": "function", "name": "weather", "parameters": schema, "strict": True}


@test
def responses():
    r = gpt.responses.create(**respond, instructions="You are a helpful assistant.")
    assert r.output_text and r.status in ("completed", "incomplete") and r.usage.output_tokens > 0, r
    assert r.id.startswith("resp_") and r.error is None
    items = gpt.responses.create(**dict(respond, input=hello), instructions="You are a helpful assistant.")
    assert items.output_text == r.output_text


@test
def responses_stream():
    whole = gpt.responses.create(**dict(respond, max_output_tokens=400)).output_text
    with gpt.responses.stream(**dict(respond, max_output_tokens=400)) as s:
        events = list(s)
        final = s.get_final_response()
    assert final.output_text == whole
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole
    raw = list(gpt.responses.create(**respond, stream=True))
    assert [e.sequence_number for e in raw] == list(range(len(raw))), raw
    assert raw[0].type == "response.created" and raw[-1].type in ("response.completed", "response.incomplete")


@test
def responses_functions():
    r = gpt.responses.create(**dict(respond, max_output_tokens=200), tools=[function], tool_choice="required")
    call = next(o for o in r.output if o.type == "function_call")
    assert json.loads(call.arguments)["city"] in ("Rome", "Oslo"), r
    items = hello + r.output + [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    assert gpt.responses.create(**dict(respond, input=items), tools=[function]).output
    on = gpt.responses.create(**dict(respond, input=items[-1:]), tools=[function], previous_response_id=r.id)
    assert on.output and on.previous_response_id == r.id


@test
def responses_parse():
    class Answer(pydantic.BaseModel):
        city: str
        days: int
    r = gpt.responses.parse(**dict(respond, max_output_tokens=200), text_format=Answer)
    assert isinstance(r.output_parsed, Answer), r


@test
def responses_go_on():
    first = gpt.responses.create(**respond)
    second = gpt.responses.create(**dict(respond, input="And 4 + 4?"), previous_response_id=first.id)
    spelled = gpt.responses.create(**dict(respond, input=hello + [{"role": "assistant", "content": first.output_text}, {"role": "user", "content": "And 4 + 4?"}]))
    assert second.output_text == spelled.output_text
    lost = gpt.responses.create(**respond, store=False)
    e = fails(openai.BadRequestError, 400, lambda: gpt.responses.create(**respond, previous_response_id=lost.id))
    assert e.code == "previous_response_not_found", e


@test
def responses_errors():
    e = fails(openai.BadRequestError, 400, lambda: gpt.responses.create(**dict(respond, input=[])))
    assert e.param == "input", e.param
    fails(openai.AuthenticationError, 401, lambda: gpt.with_options(api_key="wrong").responses.create(**respond))
    e = fails(openai.BadRequestError, 400, lambda: gpt.responses.create(**dict(respond, input="word " * 5000)))
    assert e.code == "context_length_exceeded", e


# ---- ollama ----

options = {"temperature": 0, "num_predict": 24}
call = {"type": "function", "function": {"name": "weather", "description": "Tells the weather", "parameters": schema}}


@test
def ollama_chat():
    r = llama.chat(MODEL, hello, think=False, options=options)
    assert r.message.content and r.done and r.eval_count > 0 and r.prompt_eval_count > 0, r
    parts = list(llama.chat(MODEL, hello, think=False, options=options, stream=True))
    assert "".join(p.message.content for p in parts) == r.message.content and parts[-1].done, parts
    assert llama.chat(MODEL, hello, think=True, options=dict(options, num_predict=300)).message.thinking


@test
def ollama_generate():
    r = llama.generate(MODEL, question, think=False, options=options)
    assert r.response == llama.chat(MODEL, hello, think=False, options=options).message.content, r
    assert "".join(p.response for p in llama.generate(MODEL, question, think=False, options=options, stream=True)) == r.response
    assert llama.generate(MODEL, "Once upon", raw=True, options=options).response
    assert llama.generate(MODEL, "").done_reason == "load"


@test
def ollama_tools_and_forms():
    r = llama.chat(MODEL, [{"role": "user", "content": "What is the weather in Rome?"}], tools=[call], think=False, options=dict(options, num_predict=200))
    history = [hello[0], {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
               {"role": "tool", "tool_name": "weather", "content": "sunny"}]
    assert r.message is not None and llama.chat(MODEL, history, tools=[call], think=False, options=options).done
    form = llama.chat(MODEL, hello, format=schema, think=False, options=dict(options, num_predict=100)).message.content
    assert json.loads(form)["city"] in ("Rome", "Oslo"), form


@test
def ollama_models():
    assert [m.model for m in llama.list().models] == [MODEL]
    assert [m.model for m in llama.ps().models] == [MODEL]
    info = llama.show(MODEL)
    assert "completion" in info.capabilities and "tools" in info.capabilities and info.modelinfo["general.architecture"], info


@test
def ollama_errors():
    fails(ollama.ResponseError, 404, lambda: llama.show("another"))
    e = fails(ollama.ResponseError, 400, lambda: llama.embed(MODEL, "a"))
    assert "pooling_type" in e.error, e.error
    fails(ollama.ResponseError, 400, lambda: llama.chat(MODEL, hello, options={"temperature": "hot"}))
    fails(ollama.ResponseError, 401, lambda: ollama.Client(host=URL).chat(MODEL, hello))


misses = 0
for f in tests:
    try:
        f()
        print("ok  ", f.__name__, flush=True)
    except Exception as e:
        misses += 1
        print("MISS", f.__name__, f"{type(e).__name__}: {e}"[:600], flush=True)
        traceback.print_exc(limit=-3)
sys.exit(misses > 0)
