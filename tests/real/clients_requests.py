"""tests/real/clients_requests.py URL FILE...: sends the requests that other programs are known to send
(tests/real/requests/) and holds the answers to what is expected and to share/openapi.json: a request that is taken is one
that is described; an answer, an event and an error have the forms that are described. What is expected:

    {"status": 200, "stream": true, "usage": true, "calls": [names], "says": part of the error, "headers": {..}}
"""
import http.client
import json
import sys
import urllib.parse

import jsonschema

SPEC = json.load(open("share/openapi.json"))
url = urllib.parse.urlsplit(sys.argv[1])
misses = 0


def operation(method, path):
    item = SPEC["paths"].get(path.split("?")[0])
    return (item or {}).get(method.lower())


def follows(value, schema, what):
    whole = {**schema, "components": SPEC["components"]}
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(whole).iter_errors(value))
    assert error is None, f"{what} is not as described: {error.json_path}: {error.message[:200]}"


def events(text):
    found = [e for e in text.split("\n\n") if not e.startswith(":")] # comments tell that the prompt is being read
    assert found[-1] == "" and found[-2] == "data: [DONE]", f"the stream ends with {text[-80:]!r}"
    assert all(e.startswith("data: ") for e in found[:-1])
    return [json.loads(e[6:]) for e in found[:-2]]


def check(request):
    expect, body = request["expect"], request.get("body")
    c = http.client.HTTPConnection(url.hostname, url.port, timeout=600)
    c.request(request["method"], request["path"], json.dumps(body) if body is not None else None, request["headers"])
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    assert answer.status == expect["status"], f"status {answer.status}, expected {expect['status']}: {text[:300]}"
    for name, value in expect.get("headers", {}).items():
        assert answer.getheader(name) == value, f"{name} is {answer.getheader(name)}, expected {value}"
    described = operation(request["method"], request["path"])
    if answer.status >= 400:
        follows(json.loads(text), SPEC["components"]["schemas"]["Error"], "the error")
        assert expect["says"] in json.loads(text)["error"]["message"], text
        return
    if request["method"] == "OPTIONS":
        return
    contents = described["responses"]["200"]["content"]
    assert ("text/event-stream" if expect.get("stream") else "application/json") == answer.getheader("content-type")
    if body is not None:
        follows(body, described["requestBody"]["content"]["application/json"]["schema"], "the request")
    calls = []
    if expect.get("stream"):
        data = contents["text/event-stream"]["schema"]["$ref"].rsplit("/", 1)[1]
        chunk = SPEC["components"]["schemas"][data]["properties"]["data"]["anyOf"][1]["contentSchema"]["anyOf"][0]
        got = events(text)
        for event in got:
            follows(event, chunk, "an event")
            for choice in event["choices"]:
                calls += [t["function"]["name"] for t in choice.get("delta", {}).get("tool_calls", []) if "id" in t]
        reasons = [choice["finish_reason"] for event in got for choice in event["choices"] if choice["finish_reason"]]
        assert len(reasons) == 1, reasons
        with_usage = [bool(event.get("usage")) for event in got]
        assert with_usage == [False] * (len(got) - 1) + [expect.get("usage", False)], "usage in the last event alone"
    else:
        follows(json.loads(text), contents["application/json"]["schema"], "the answer")
        for choice in json.loads(text).get("choices", []):
            calls += [t["function"]["name"] for t in choice.get("message", {}).get("tool_calls", [])]
    assert set(expect.get("calls", calls)) == set(calls), f"calls {calls}, expected {expect.get('calls')}"


for name in sys.argv[2:]:
    form = json.load(open(name))
    for request in form["requests"]:
        try:
            check(request)
        except Exception as e:
            misses += 1
            print(f"MISS: {form['client']}: {request['name']}: {type(e).__name__}: {e}")
    print(f"  {form['client']}: {len(form['requests'])} requests")
sys.exit(1 if misses else 0)
