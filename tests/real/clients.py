"""tests/real/clients.py URL KEY OPEN_URL: clients that are not ours against two running `zinc serve`: URL asks for KEY
and has --slots 2 --queue 2 --max-body 1, OPEN_URL asks for no key. A line for each check; exit 1 where one missed.

    openai       models, chats, streams, forms of answers, tools, errors by class, time and leaving, the async client
    litellm      provider openai/ with api_base: chat, stream, tools, errors
    langchain    ChatOpenAI: invoke, stream, batch, bind_tools, with_structured_output
"""
import asyncio
import enum
import os
import sys
import threading
import time
import traceback
import typing
import urllib.request

# No word to anybody but the server.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False", LANGSMITH_TRACING="false",
                  LANGCHAIN_TRACING_V2="false", OPENAI_API_KEY="not-this-one", NO_PROXY="*")

import litellm
import openai
import pydantic
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI

URL, KEY, OPEN_URL = sys.argv[1:4]
litellm.telemetry = False
litellm.suppress_debug_info = True
client = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=600)
MODEL = client.models.list().data[0].id
question = "What is the capital of France?"
hello = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": question}]
plain = dict(model=MODEL, messages=hello, max_tokens=16, temperature=0)
long = dict(plain, max_tokens=1900, extra_body={"ignore_eos": True})

misses = 0
tests = []


def test(f):
    tests.append(f)
    return f


def fails(cls, status, f):
    """The exception that f ends with: of this class and with this status (None: it has none)."""
    try:
        f()
    except Exception as e:
        assert isinstance(e, cls), f"{type(e).__name__} in the place of {cls.__name__}: {e}"
        got = getattr(e, "status_code", None)
        assert got == status, f"status {got}, expected {status}"
        return e
    raise AssertionError(f"expected {cls.__name__}, but it went well")


def metric(name):
    request = urllib.request.Request(URL + "/metrics", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
    raise AssertionError(f"no {name} in /metrics")


def becomes(name, value):
    end = time.monotonic() + 600
    while metric(name) != value:
        assert time.monotonic() < end, f"{name} is {metric(name)}, expected {value}"
        time.sleep(0.02)


# ---- openai: models, chats ----

@test
def openai_models():
    listed = client.models.list()
    assert [m.id for m in listed] == [MODEL] and listed.data[0].object == "model"
    assert client.models.retrieve(MODEL).id == MODEL
    e = fails(openai.NotFoundError, 404, lambda: client.models.retrieve("no/such"))
    assert e.code == "model_not_found" and MODEL in e.message, e.message


whole = None


@test
def openai_chat():
    global whole
    whole = client.chat.completions.create(**plain)
    choice = whole.choices[0]
    assert whole.object == "chat.completion" and whole.model == MODEL and whole.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant" and "Paris" in choice.message.content, choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert whole.usage.completion_tokens_details.reasoning_tokens == 0
    raw = client.chat.completions.with_raw_response.create(**plain)
    assert raw.headers["x-request-id"] and raw.parse().choices[0].message.content == choice.message.content
    assert raw.parse().usage.prompt_tokens_details.cached_tokens > 0, "the same prompt again is not evaluated again"


@test
def openai_prediction():
    ask = {**plain, "max_tokens": 40, "messages": [{"role": "user", "content": "Count from one to fifteen in words."}]}
    answer = client.chat.completions.create(**ask).choices[0].message.content
    again = client.chat.completions.create(**ask, prediction={"type": "content", "content": answer})
    assert again.choices[0].message.content == answer, again.choices[0].message.content
    assert again.usage.completion_tokens_details.accepted_prediction_tokens > 0, again.usage


@test
def openai_stream():
    text, usage, finish, roles = "", None, None, []
    for chunk in client.chat.completions.create(**plain, stream=True, stream_options={"include_usage": True}):
        assert chunk.object == "chat.completion.chunk"
        usage = chunk.usage or usage
        for c in chunk.choices:
            roles += [c.delta.role] if c.delta.role else []
            text += c.delta.content or ""
            finish = c.finish_reason or finish
    assert text == whole.choices[0].message.content and finish == whole.choices[0].finish_reason
    assert roles == ["assistant"]
    assert usage.completion_tokens == whole.usage.completion_tokens
    with client.chat.completions.stream(**plain) as stream: # the package's helper puts the events together
        kinds = {event.type for event in stream}
        assert stream.get_final_completion().choices[0].message.content == text
    assert {"content.delta", "content.done"} <= kinds, kinds


@test
def openai_stop_n_seed():
    stopped = client.chat.completions.create(**plain, stop=["Paris", "never said"])
    assert "Paris" not in stopped.choices[0].message.content and stopped.choices[0].finish_reason == "stop"
    story = dict(model=MODEL, messages=[{"role": "user", "content": "Tell me a story."}], max_tokens=12, temperature=1.5)
    draw = lambda seed, n=1: [c.message.content for c in
                              client.chat.completions.create(**story, n=n, seed=seed).choices]
    two = draw(7, 2)
    assert len(set(two)) == 2 and draw(7, 2) == two, two
    assert draw(8) != draw(7)
    short = client.chat.completions.create(model=MODEL, messages=hello, temperature=0, max_completion_tokens=2)
    assert short.usage.completion_tokens == 2 and short.choices[0].finish_reason == "length"


@test
def openai_logprobs():
    a = client.chat.completions.create(**plain, logprobs=True, top_logprobs=3)
    tokens = a.choices[0].logprobs.content
    assert bytes(b for t in tokens for b in t.bytes).decode().startswith(a.choices[0].message.content)
    for t in tokens:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3 and t.top_logprobs[0].token == t.token
        assert all(x.logprob >= y.logprob for x, y in zip(t.top_logprobs, t.top_logprobs[1:]))


# ---- openai: forms of answers, tools ----

class Place(pydantic.BaseModel):
    city: str = pydantic.Field(max_length=20)
    country: str = pydantic.Field(max_length=20)
    citizens: int = pydantic.Field(ge=0, le=99_000_000)


class Kind(enum.Enum):
    big = "big"
    small = "small"


class Places(pydantic.BaseModel):
    """With a nested model, an optional field and an enum, as pydantic's schemas have them: $defs, anyOf, null."""
    first: Place
    note: str | None = pydantic.Field(max_length=10)
    kind: Kind


@test
def openai_parse():
    ask = dict(plain, max_tokens=200)
    a = client.chat.completions.parse(**ask, response_format=Place)
    assert isinstance(a.choices[0].message.parsed, Place), a.choices[0].message.content
    b = client.chat.completions.parse(**dict(ask, temperature=1, seed=4), response_format=Places)
    assert isinstance(b.choices[0].message.parsed, Places), b.choices[0].message.content
    with client.chat.completions.stream(**ask, response_format=Place) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.parsed == a.choices[0].message.parsed
    c = client.chat.completions.create(**ask, response_format={"type": "json_object"})
    assert c.choices[0].message.content.lstrip().startswith("{")
    fails(openai.LengthFinishReasonError, None,
          lambda: client.chat.completions.parse(**dict(ask, max_tokens=3), response_format=Place))


class GetWeather(pydantic.BaseModel):
    """The weather in a city."""
    city: str = pydantic.Field(max_length=20)
    unit: typing.Literal["celsius", "fahrenheit"]


weather_tool = openai.pydantic_function_tool(GetWeather, name="get_weather")
weather = dict(model=MODEL, messages=[{"role": "user", "content": "What is the weather in Paris?"}],
               tools=[weather_tool], temperature=0, max_tokens=120, parallel_tool_calls=False)


@test
def openai_tools():
    a = client.chat.completions.create(**weather, tool_choice="required")
    assert a.choices[0].finish_reason == "tool_calls" and a.choices[0].message.content is None
    call, = a.choices[0].message.tool_calls
    assert call.type == "function" and call.function.name == "get_weather"
    GetWeather.model_validate_json(call.function.arguments)
    choice = {"type": "function", "function": {"name": "get_weather"}}
    named = client.chat.completions.parse(**weather, tool_choice=choice)
    assert isinstance(named.choices[0].message.tool_calls[0].function.parsed_arguments, GetWeather)
    with client.chat.completions.stream(**weather, tool_choice="required") as stream:
        kinds = [event.type for event in stream]
        streamed, = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed.function.arguments == call.function.arguments and "tool_calls.function.arguments.done" in kinds
    # the message goes back as the package has it, with its nulls, and with the result
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"sky":"clear"}'}
    back = weather["messages"] + [a.choices[0].message, result]
    b = client.chat.completions.create(**dict(weather, messages=back, max_tokens=24), tool_choice="none")
    assert b.choices[0].message.content and not b.choices[0].message.tool_calls
    assert b.usage.prompt_tokens > whole.usage.prompt_tokens
    e = fails(openai.BadRequestError, 400, lambda: client.chat.completions.create(**plain, tool_choice="required"))
    assert e.param == "tool_choice"


# ---- openai: other endpoints ----

@test
def openai_completions():
    ask = dict(model=MODEL, prompt="The capital of France is", max_tokens=6, temperature=0)
    a = client.completions.create(**ask, logprobs=2)
    probs = a.choices[0].logprobs
    assert "Paris" in a.choices[0].text and len(probs.tokens) == len(probs.token_logprobs) > 0
    assert "".join(c.choices[0].text for c in client.completions.create(**ask, stream=True)) == a.choices[0].text
    assert client.completions.create(**ask, echo=True).choices[0].text == ask["prompt"] + a.choices[0].text
    many = client.completions.create(**dict(ask, prompt=[ask["prompt"], "Two and two is"]))
    assert [c.index for c in many.choices] == [0, 1] and many.choices[0].text == a.choices[0].text


@test
def openai_endpoints_that_are_not_there():
    e = fails(openai.BadRequestError, 400, lambda: client.embeddings.create(model=MODEL, input="hello"))
    assert "is not an embedding model" in e.message and e.code == "unsupported"
    for what, f in {
        "/v1/moderations": lambda: client.moderations.create(input="hello"),
        "/v1/images/generations": lambda: client.images.generate(prompt="a cat"),
        "/v1/files": lambda: client.files.list(),
        "/v1/audio/speech": lambda: client.audio.speech.create(model=MODEL, voice="alloy", input="hello"),
    }.items():
        e = fails(openai.NotFoundError, 404, f)
        assert f"nothing is at {what}" in str(e) and e.body["code"] == "not_found", e
    twice = openai.OpenAI(base_url=URL + "/v1/v1", api_key=KEY, max_retries=0)
    assert "/v1/v1/models" in str(fails(openai.NotFoundError, 404, lambda: twice.models.list()))
    bare = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0) # who forgets /v1 is answered all the same
    assert bare.models.list().data[0].id == MODEL


# ---- openai: errors, time, leaving ----

@test
def openai_errors():
    wrong = {"temperature": dict(temperature=3000), "top_logprobs": dict(top_logprobs=3), "stop": dict(stop=5),
             "messages[0].role": dict(messages=[{"role": "robot", "content": "a"}]),
             "response_format": dict(response_format={"type": "json_schema"})}
    for param, more in wrong.items():
        e = fails(openai.BadRequestError, 400, lambda: client.chat.completions.create(**{**plain, **more}))
        assert e.param.startswith(param) and e.type == "invalid_request_error" and e.message, e
    stranger = openai.OpenAI(base_url=URL + "/v1", api_key="wrong", max_retries=0)
    e = fails(openai.AuthenticationError, 401, lambda: stranger.chat.completions.create(**plain))
    assert e.code == "invalid_api_key" and "is not known" in e.message
    picture = [{"type": "text", "text": "What is it?"},
               {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    e = fails(openai.BadRequestError, 400, lambda: client.chat.completions.create(
        **dict(plain, messages=[{"role": "user", "content": picture}])))
    assert "reads text only" in e.message
    e = fails(openai.BadRequestError, 400, lambda: client.chat.completions.create(
        **dict(plain, messages=[{"role": "user", "content": "word " * 4000}])))
    assert e.code == "context_length_exceeded"
    e = fails(openai.APIStatusError, 413, lambda: client.chat.completions.create(
        **dict(plain, messages=[{"role": "user", "content": "x" * 1_500_000}])))
    assert e.body["code"] == "request_too_large"
    e = fails(openai.APIStatusError, 408, lambda: client.chat.completions.create(
        **dict(long, extra_body={"timeout": 0.01})))
    assert e.body["code"] == "timeout"


@test
def openai_leaving():
    becomes("zinc_requests_running", 0)
    before = metric("zinc_requests_cancelled_total")
    with client.chat.completions.create(**long, stream=True) as stream:
        for _, chunk in zip(range(4), stream):
            pass
    becomes("zinc_requests_running", 0)
    assert metric("zinc_requests_cancelled_total") == before + 1
    for wait in (0.3, 0.6, 1.2, 2.4, 4.8, 9.6): # it has to be long enough for the server to begin
        fails(openai.APITimeoutError, None, lambda: client.with_options(timeout=wait).chat.completions.create(**long))
        becomes("zinc_requests_running", 0)
        becomes("zinc_slots_busy", 0)
        if metric("zinc_requests_cancelled_total") == before + 2:
            return
    raise AssertionError("who does not wait for an answer cancels nothing")


def hold(n, leave):
    """n streams that run or wait until `leave` is set."""
    def one():
        while not leave.is_set():
            try:
                with client.chat.completions.create(**long, stream=True) as stream:
                    for _ in stream:
                        if leave.is_set():
                            break
            except openai.APIError:
                time.sleep(0.02)
    threads = [threading.Thread(target=one) for _ in range(n)]
    for t in threads:
        t.start()
    return threads


@test
def openai_retries():
    """Two run, two wait: 429 for more, and the package comes back by itself as Retry-After says."""
    leave = threading.Event()
    threads = hold(2, leave)
    try:
        becomes("zinc_requests_running", 2)
        threads += hold(2, leave)
        becomes("zinc_requests_waiting", 2)   # asked only now: a request waits for a moment even where a slot is free
        e = fails(openai.RateLimitError, 429, lambda: client.chat.completions.create(**plain))
        assert e.code == "queue_full" and int(e.response.headers["retry-after"]) >= 1, e
        threading.Timer(0.5, leave.set).start()
        a = client.with_options(max_retries=300).chat.completions.create(**plain)
        assert a.choices[0].message.content == whole.choices[0].message.content
    finally:
        leave.set()
        for t in threads:
            t.join()
    becomes("zinc_requests_running", 0)


@test
def openai_async():
    async def main():
        async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=600) as c:
            assert (await c.models.list()).data[0].id == MODEL
            both = await asyncio.gather(*(c.chat.completions.create(**plain) for _ in range(3)))
            assert {a.choices[0].message.content for a in both} == {whole.choices[0].message.content}
            text = ""
            async for chunk in await c.chat.completions.create(**plain, stream=True):
                text += chunk.choices[0].delta.content or ""
            assert text == whole.choices[0].message.content
            task = asyncio.create_task(c.chat.completions.create(**long))
            await asyncio.to_thread(becomes, "zinc_requests_running", 1)
            task.cancel()
            try:
                await task
                raise AssertionError("it was cancelled and went on")
            except asyncio.CancelledError:
                pass
    asyncio.run(main())
    becomes("zinc_requests_running", 0)


@test
def openai_without_keys():
    c = openai.OpenAI(base_url=OPEN_URL + "/v1", api_key="sk-any", max_retries=0)
    model = c.models.list().data[0].id
    assert c.chat.completions.create(**dict(plain, model=model)).choices[0].message.content


# ---- litellm ----

lite = dict(model="openai/" + MODEL, api_base=URL + "/v1", api_key=KEY, messages=hello, max_tokens=16, temperature=0,
            max_retries=0)


@test
def litellm_completion():
    a = litellm.completion(**lite)
    assert a.choices[0].message.content == whole.choices[0].message.content
    assert a.usage.completion_tokens == whole.usage.completion_tokens
    b = asyncio.run(litellm.acompletion(**lite))
    assert b.choices[0].message.content == a.choices[0].message.content
    old = litellm.text_completion(model="text-completion-openai/" + MODEL, api_base=URL + "/v1", api_key=KEY,
                                  prompt="The capital of France is", max_tokens=6, temperature=0)
    assert "Paris" in old.choices[0].text


@test
def litellm_stream():
    chunks = list(litellm.completion(**lite, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    built = litellm.stream_chunk_builder(chunks)
    assert built.usage.completion_tokens == whole.usage.completion_tokens
    assert built.choices[0].finish_reason == whole.choices[0].finish_reason


@test
def litellm_tools_and_forms():
    ask = dict(lite, messages=weather["messages"], tools=[weather_tool], tool_choice="required", max_tokens=120,
               parallel_tool_calls=False)
    a = litellm.completion(**ask)
    call, = a.choices[0].message.tool_calls
    assert a.choices[0].finish_reason == "tool_calls"
    GetWeather.model_validate_json(call.function.arguments)
    built = litellm.stream_chunk_builder(list(litellm.completion(**ask, stream=True)))
    assert built.choices[0].message.tool_calls[0].function.arguments == call.function.arguments
    b = litellm.completion(**dict(lite, max_tokens=200), response_format=Place)
    Place.model_validate_json(b.choices[0].message.content)


@test
def litellm_errors():
    for cls, status, more in (
        (litellm.BadRequestError, 400, dict(temperature=3000)),
        (litellm.AuthenticationError, 401, dict(api_key="wrong")),
        (litellm.NotFoundError, 404, dict(api_base=URL + "/nowhere")),
        (litellm.ContextWindowExceededError, 400, dict(messages=[{"role": "user", "content": "word " * 4000}])),
    ):
        fails(cls, status, lambda: litellm.completion(**{**lite, **more}))


# ---- langchain ----

def chat(**more):
    ours = dict(base_url=URL + "/v1", api_key=KEY, model=MODEL, temperature=0, max_tokens=16, max_retries=0)
    return ChatOpenAI(**{**ours, **more})


@test
def langchain_invoke_stream_batch():
    m = chat(stream_usage=True)
    asked = [SystemMessage(hello[0]["content"]), HumanMessage(question)]
    a = m.invoke(asked)
    assert "Paris" in a.content and a.usage_metadata["output_tokens"] > 0 and a.response_metadata["finish_reason"]
    total = None
    for chunk in m.stream(asked):
        total = chunk if total is None else total + chunk
    assert total.content == whole.choices[0].message.content
    assert total.usage_metadata["output_tokens"] == whole.usage.completion_tokens
    both = m.batch([asked, "What is two and two?"])
    assert both[0].content == total.content and both[1].content
    assert asyncio.run(chat().ainvoke(asked)).content == total.content
    probs = chat(logprobs=True).invoke(asked).response_metadata["logprobs"]["content"]
    assert probs and probs[0]["logprob"] <= 0


@test
def langchain_tools():
    m = chat().bind_tools([GetWeather], tool_choice="required", parallel_tool_calls=False).bind(max_tokens=120)
    question = HumanMessage("What is the weather in Paris?")
    a = m.invoke([question])
    call, = a.tool_calls
    assert isinstance(a, AIMessage) and call["name"] == "GetWeather"
    GetWeather.model_validate(call["args"])
    total = None
    for chunk in m.stream([question]):
        total = chunk if total is None else total + chunk
    assert total.tool_calls[0]["args"] == call["args"]
    b = chat().invoke([question, a, ToolMessage('{"sky":"clear"}', tool_call_id=call["id"])])
    assert b.content


@test
def langchain_structured_output():
    for method in "json_schema", "function_calling":
        a = chat(max_tokens=200).with_structured_output(Place, method=method).invoke("Tell me of Paris.")
        assert isinstance(a, Place), a


@test
def langchain_errors():
    fails(openai.AuthenticationError, 401, lambda: chat(api_key="wrong").invoke("hello"))
    fails(ContextOverflowError, 400, lambda: chat().invoke("word " * 4000))


@test
def nothing_is_left():
    for name in "zinc_requests_running", "zinc_requests_waiting", "zinc_slots_busy":
        becomes(name, 0)
    assert metric("zinc_requests_failed_total") == 0


only = sys.argv[4:]
for f in tests:
    if only and f.__name__ not in only and f is not openai_chat:
        continue
    start = time.monotonic()
    try:
        f()
        print(f"  ok    {f.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
    except Exception as e:
        misses += 1
        at = [x.lineno for x in traceback.extract_tb(e.__traceback__) if x.filename == __file__]
        print(f"MISS: {f.__name__}: line {'/'.join(map(str, at))}: {type(e).__name__}: {str(e)[:600]}", flush=True)
print(f"{misses} misses" if misses else f"all {len(tests)} well")
sys.exit(1 if misses else 0)
