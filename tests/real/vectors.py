"""tests/real/vectors.py URL KEY: openai's and ollama's clients, as they ask for vectors, against a running `zinc serve` that makes
them and asks for KEY. A line for each check; exit 1 where one missed. openai's asks for base64 unless it is told not to.
"""
import math
import os
import sys
import traceback

os.environ.update(NO_PROXY="*", OPENAI_API_KEY="not-this-one")

import ollama
import openai

URL, KEY = sys.argv[1:3]
gpt = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=600)
llama = ollama.Client(host=URL, headers={"Authorization": "Bearer " + KEY}, timeout=600)
MODEL = gpt.models.list().data[0].id
texts = ["The captain asked the first sailor.", "There were three wheels.", "x"]
tests = []


def test(f):
    tests.append(f)
    return f


def length(v):
    return math.sqrt(sum(x * x for x in v))


def same(a, b):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-7


@test
def openai_vectors():
    packed = gpt.embeddings.create(model=MODEL, input=texts)
    plain = gpt.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    assert [d.index for d in packed.data] == [0, 1, 2] and packed.usage.prompt_tokens == packed.usage.total_tokens > 6, packed.usage
    for a, b in zip(packed.data, plain.data):
        assert same(a.embedding, b.embedding) and abs(length(a.embedding) - 1) < 1e-5
    short = gpt.embeddings.create(model=MODEL, input=texts[0], dimensions=8).data[0].embedding
    assert len(short) == 8 and abs(length(short) - 1) < 1e-5
    assert same(short, [x / length(plain.data[0].embedding[:8]) for x in plain.data[0].embedding[:8]])
    many = gpt.embeddings.create(model=MODEL, input=[[i % 500, 7, 9] for i in range(300)])
    assert len(many.data) == 300 and same(many.data[0].embedding, gpt.embeddings.create(model=MODEL, input=[0, 7, 9]).data[0].embedding)


@test
def ollama_vectors():
    many = llama.embed(MODEL, texts)
    one = llama.embeddings(MODEL, texts[1])
    plain = gpt.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    assert all(same(a, d.embedding) for a, d in zip(many.embeddings, plain.data)) and same(one.embedding, plain.data[1].embedding)
    assert llama.show(MODEL).capabilities == ["embedding"]


@test
def errors():
    for what in (dict(input=[]), dict(input="a", dimensions=10 ** 6), dict(input="word " * 5000)):
        try:
            gpt.embeddings.create(model=MODEL, **what)
        except openai.BadRequestError as e:
            assert e.param in ("input", "dimensions"), e
        else:
            raise AssertionError(f"{what} went well"[:100])
    try:
        gpt.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
    except openai.BadRequestError as e:
        assert e.code == "unsupported", e
    else:
        raise AssertionError("it talks")
    try:
        llama.embed(MODEL, "word " * 5000)
    except ollama.ResponseError as e:
        assert e.status_code == 400 and "context" in e.error, e
    else:
        raise AssertionError("it cuts")


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
