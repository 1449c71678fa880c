"""The demo model's training data: a program that writes conversations. Deterministic from a seed; no outside corpus.

    conversation(rng)  -> Conv: messages, tools, thinking on or off, task name
    render(conv)       -> [(text, trained)]: Qwen3.5 chat text in pieces; the loss is taken on the trained ones
    heldout(task, rng) -> (Conv without its last answer, expected answer) for the evaluation

Licence: MIT, as the rest of zinc."""

import json
import random
import zlib

import lexicon as lx
from lexicon import ANIMALS, CAPITALS, CHAT, CITIES, COLOURS, DAYS, FACTS, FOODS, MONTHS, NAMES, PET_NAMES, PLACES, THINGS, WORDS
from stories import a, plural, scene, story


class Conv:
    __slots__ = ("messages", "tools", "think", "task")

    def __init__(self, messages, task, tools=None, think=None):
        self.messages, self.task, self.tools, self.think = messages, task, tools, think


# ---- rendering: the text of Qwen3.5's chat format ------------------------------------------------------------------

TOOL_HEAD = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
TOOL_TAIL = ("\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
             "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
             "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
             "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified "
             "format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags\n"
             "- Required parameters MUST be specified\n- You may provide optional reasoning for your function call in "
             "natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer "
             "the question like normal with your current knowledge and do not tell the user about function calls\n"
             "</IMPORTANT>")


def call_text(call):
    s = f"<tool_call>\n<function={call['name']}>\n"
    for k, v in call["arguments"].items():
        s += f"<parameter={k}>\n{v}\n</parameter>\n"
    return s + "</function>\n</tool_call>"


def assistant_text(m):
    t = m.get("content", "")
    if m.get("call"):
        t = (t + "\n\n" if t else "") + call_text(m["call"])
    return t


def render(c, generation=False):
    """Pieces of (text, trained). With generation, the prompt up to where the model starts to write."""
    out, msgs = [], c.messages
    system = msgs[0]["content"] if msgs[0]["role"] == "system" else None
    if c.tools:
        head = "<|im_start|>system\n" + TOOL_HEAD + "".join("\n" + json.dumps(t) for t in c.tools) + TOOL_TAIL
        out.append((head + ("\n\n" + system if system else "") + "<|im_end|>\n", False))
    elif system:
        out.append(("<|im_start|>system\n" + system + "<|im_end|>\n", False))
    last_user = max(i for i, m in enumerate(msgs) if m["role"] == "user")
    for i, m in enumerate(msgs):
        if m["role"] == "user":
            out.append(("<|im_start|>user\n" + m["content"] + "<|im_end|>\n", False))
        elif m["role"] == "tool":
            out.append(("<|im_start|>user\n<tool_response>\n" + m["content"] + "\n</tool_response><|im_end|>\n", False))
        elif m["role"] == "assistant":
            text = assistant_text(m) + "<|im_end|>"
            if i < last_user:
                out.append(("<|im_start|>assistant\n", False))
            elif c.think is not None:
                out.append(("<|im_start|>assistant\n<think>\n", False))
                text = m.get("think", "") + "\n</think>\n\n" + text
            else:
                out.append(("<|im_start|>assistant\n<think>\n\n</think>\n\n", False))
            out += [(text, True), ("\n", False)]
    if generation:
        out.append(("<|im_start|>assistant\n<think>\n" + ("" if c.think is not None else "\n</think>\n\n"), False))
    return out


def user(t):
    return {"role": "user", "content": t}


def bot(t, think=None, call=None):
    return {"role": "assistant", "content": t, "think": think or "", "call": call}


SYLLABLES = "ba be bi bo da de di do fa fe ga go ha he ja jo ka ke ki ko la le li lo lu ma me mi mo na ne ni no pa pe ra re ri ro sa se si so ta te ti to va ve vi vo wa ya za zo".split()


def invented(r):
    """A word that no list holds, so that recalling is copying and not choosing."""
    w = "".join(r.choice(SYLLABLES) for _ in range(r.randint(2, 3))) + r.choice(["", "", "n", "r", "s", "l", "x", "th"])
    return w


def person(r):
    k = r.random()
    return r.choice(NAMES) if k < 0.4 else r.choice(lx.MORE_NAMES) if k < 0.75 else invented(r).capitalize()


def pet_name(r):
    k = r.random()
    return r.choice(PET_NAMES) if k < 0.5 else person(r)


def creature(r):
    return r.choice(ANIMALS) if r.random() < 0.6 else r.choice(lx.MORE_ANIMALS)


def listed(r, xs):
    """A list as people write it."""
    k = r.random()
    return ", ".join(xs) if k < 0.7 else " ".join(xs) if k < 0.85 else "[" + ", ".join(xs) + "]" if k < 0.93 else ",".join(xs)


# ---- single turns: each task returns (question, answer, reasoning or None) -----------------------------------------


def held_pair(x, y):
    """A tenth of all operand pairs is never trained on."""
    return zlib.crc32(f"{x},{y}".encode()) % 10 == 0


def digits_add(x, y):
    steps, carry, place = [], 0, 0
    sx, sy = str(x)[::-1], str(y)[::-1]
    for i in range(max(len(sx), len(sy))):
        p, q = int(sx[i]) if i < len(sx) else 0, int(sy[i]) if i < len(sy) else 0
        s = p + q + carry
        steps.append(f"{p} + {q}" + (f" + {carry}" if carry else "") + f" = {s}")
        carry = s // 10
    return ", ".join(steps) + f". So {x} + {y} = {x + y}."


def add(r, held=False, big=False):
    hi = 999 if big else 99
    while True:
        x, y = r.randint(0 if not held else 10, hi), r.randint(0 if not held else 10, hi)
        if r.random() < 0.15 and not held:
            x = r.randint(0, 12)
        if held_pair(x, y) == held:
            break
    q = r.choice([f"What is {x} + {y}?", f"{x} + {y} = ?", f"{x}+{y}", f"What is {x} plus {y}?", f"Add {x} and {y}.", f"Compute {x} + {y}.",
                  f"How much is {x} + {y}?", f"Please add {x} and {y}.", f"What do you get if you add {x} and {y}?", f"what's {x} + {y}?", f"{x} + {y}", f"{x} plus {y}", f"Calculate {x} + {y}",
                  f"Can you add {x} and {y}?", f"What is the sum of {x} and {y}?", f"{x} plus {y} equals?", f"what is {x}+{y}"])
    return q, f"{x} + {y} = {x + y}", digits_add(x, y)


def add3(r, held=False):
    x, y, z = (r.randint(1, 20) for _ in range(3))
    return f"What is {x} + {y} + {z}?", f"{x} + {y} + {z} = {x + y + z}", f"{x} + {y} = {x + y}, {x + y} + {z} = {x + y + z}."


def sub(r, held=False):
    while True:
        x, y = r.randint(0, 99), r.randint(0, 99)
        if x < y:
            x, y = y, x
        if held_pair(x, y) == held:
            break
    q = r.choice([f"What is {x} - {y}?", f"{x} - {y} = ?", f"{x}-{y}", f"What is {x} minus {y}?", f"Subtract {y} from {x}.", f"Take {y} away from {x}.",
                  f"How much is {x} - {y}?", f"what's {x} - {y}?", f"{x} - {y}", f"{x} minus {y}", f"Calculate {x} - {y}", f"what is {x}-{y}"])
    return q, f"{x} - {y} = {x - y}", f"{y} + {x - y} = {x}, so {x} - {y} = {x - y}."


def mul(r, held=False):
    x, y = r.randint(0, 12), r.randint(0, 12)
    q = r.choice([f"What is {x} * {y}?", f"{x} x {y} = ?", f"What is {x} times {y}?", f"Multiply {x} by {y}.", f"How much is {x} * {y}?", f"what's {x} * {y}?", f"{x} * {y}", f"{x} times {y}", f"Calculate {x} * {y}", f"{x}*{y}"])
    return q, f"{x} * {y} = {x * y}", f"{x} times {y} is {x * y}."


def compare(r, held=False):
    x, y = r.randint(0, 999), r.randint(0, 999)
    while x == y:
        y = r.randint(0, 999)
    if r.random() < 0.5:
        return r.choice([f"Which is larger, {x} or {y}?", f"Which number is bigger: {x} or {y}?"]), f"{max(x, y)} is larger than {min(x, y)}.", None
    if r.random() < 0.5:
        return f"Which is smaller, {x} or {y}?", f"{min(x, y)} is smaller than {max(x, y)}.", None
    return f"Is {x} even or odd?", f"{x} is {'odd' if x % 2 else 'even'}.", f"The last digit of {x} is {x % 10}."


def word_sum(r, held=False):
    n, t = r.choice(NAMES), plural(r.choice(["apple", "pear", "plum", "cookie", "nut", "lemon"]))
    x, y = r.randint(2, 20), r.randint(1, 15)
    he = r.choice(["gets", "finds", "buys"])
    if r.random() < 0.5:
        return f"{n} has {x} {t} and {he} {y} more. How many {t} does {n} have now?", f"{n} has {x + y} {t} now.", f"{x} + {y} = {x + y}."
    x += y
    return f"{n} has {x} {t} and gives away {y}. How many {t} are left?", f"{n} has {x - y} {t} left.", f"{x} - {y} = {x - y}."


def count(r, held=False):
    k = r.random()
    if k < 0.35:
        s = r.randint(0, 60)
        e = s + r.randint(3, 14)
        return r.choice([f"Count from {s} to {e}.", f"Please count from {s} to {e}."]), ", ".join(map(str, range(s, e + 1))), None
    if k < 0.5:
        e = r.randint(0, 40)
        s = e + r.randint(3, 12)
        return f"Count down from {s} to {e}.", ", ".join(map(str, range(s, e - 1, -1))), None
    if k < 0.6:
        st, s, n = r.randint(2, 5), r.randint(0, 20), r.randint(4, 8)
        return f"Count by {st} from {s}, {n} numbers.", ", ".join(str(s + st * i) for i in range(n)), None
    if k < 0.8:
        ws = r.sample(WORDS, r.randint(2, 9))
        return r.choice([f"How many words are in this list: {', '.join(ws)}?", f"Count the items: {', '.join(ws)}"]), f"There are {len(ws)}.", \
            ", ".join(f"{i + 1} {w}" for i, w in enumerate(ws)) + "."
    w, o = r.sample(WORDS, 2)
    ws = [w if r.random() < 0.5 else o for _ in range(r.randint(3, 8))]
    n = ws.count(w)
    return f"How many times is the word {w} in: {' '.join(ws)}?", f"The word {w} is there {n} time{'' if n == 1 else 's'}.", None


def sort(r, held=False, n=None):
    xs = [r.randint(0, 99) for _ in range(n or r.randint(3, 7))]
    down = r.random() < 0.3
    s = sorted(xs, reverse=down)
    li = listed(r, list(map(str, xs)))
    q = r.choice([f"Sort these numbers from largest to smallest: {li}", f"Sort in descending order: {li}"]) if down else \
        r.choice([f"Sort these numbers: {li}", f"Sort these numbers from smallest to largest: {li}", f"Put these numbers in order: {li}",
                  f"Sort in ascending order: {li}", f"Please sort {li}.", f"sort {li}", f"Sort: {li}", f"Can you sort these numbers? {li}"])
    return q, ", ".join(map(str, s)), None


def extreme(r, held=False):
    xs = r.sample(range(100), r.randint(3, 6))
    li = ", ".join(map(str, xs))
    if r.random() < 0.5:
        return f"What is the largest number in {li}?", f"The largest number is {max(xs)}.", None
    return f"What is the smallest number in {li}?", f"The smallest number is {min(xs)}.", None


def reverse(r, held=False):
    n = r.randint(3, 6)
    xs = r.sample(WORDS, n) if r.random() < 0.6 else [str(r.randint(0, 99)) for _ in range(n)]
    if r.random() < 0.15:
        xs = [invented(r) for _ in xs]
    li = listed(r, xs)
    return r.choice([f"Reverse this list: {li}", f"Write this list backwards: {li}", f"Say these in reverse order: {li}", f"reverse {li}", f"Reverse: {li}",
                     f"Please reverse this list: {li}"]), ", ".join(xs[::-1]), None


def copy(r, held=False):
    k = r.random()
    if k < 0.3:
        t = " ".join(r.choice(WORDS) for _ in range(r.randint(3, 12)))
    elif k < 0.5:
        t = " ".join(r.choice(WORDS) if r.random() < 0.5 else invented(r) if r.random() < 0.7 else person(r) for _ in range(r.randint(1, 9)))
    elif k < 0.75:
        t = " ".join(str(r.randint(0, 9999)) for _ in range(r.randint(1, 6)))
    else:
        t = scene(r).split(". ")[0].rstrip(".") + "."
    return r.choice([f"Repeat after me: {t}", f"Say this again: {t}", f"Copy this text: {t}", f"Repeat: {t}"]), t, None


def pick_item(r, held=False):
    xs = r.sample(WORDS, r.randint(3, 7))
    li = ", ".join(xs)
    k = r.randint(0, 3)
    if k == 0:
        return f"What is the first word in this list: {li}?", f"The first word is {xs[0]}.", None
    if k == 1:
        return f"What is the last word in this list: {li}?", f"The last word is {xs[-1]}.", None
    if k == 2:
        i = r.randint(1, min(4, len(xs))) - 1
        return f"What is word number {i + 1} in this list: {li}?", f"Word number {i + 1} is {xs[i]}.", None
    w = r.choice(xs) if r.random() < 0.5 else r.choice(WORDS)
    return f"Is {w} in this list: {li}?", (f"Yes, {w} is in the list." if w in xs else f"No, {w} is not in the list."), None


def calendar(r, held=False):
    if r.random() < 0.5:
        i = r.randrange(7)
        if r.random() < 0.5:
            return f"What day comes after {DAYS[i]}?", f"{DAYS[(i + 1) % 7]} comes after {DAYS[i]}.", None
        return f"What day comes before {DAYS[i]}?", f"{DAYS[i - 1]} comes before {DAYS[i]}.", None
    i = r.randrange(12)
    if r.random() < 0.5:
        return f"What month comes after {MONTHS[i]}?", f"{MONTHS[(i + 1) % 12]} comes after {MONTHS[i]}.", None
    return f"What month comes before {MONTHS[i]}?", f"{MONTHS[i - 1]} comes before {MONTHS[i]}.", None


ALL_FACTS = FACTS + [(f"What is the capital of {k}?", f"The capital of {k} is {v}.") for k, v in CAPITALS.items()]
LEADS = ("", "", "", "", "Please tell me: ", "I have a question. ", "Quick question: ", "Do you know? ", "Hi! ", "Tell me, ")


def fact(r, held=False):
    if r.random() < 0.08:
        k, v = r.choice(list(CAPITALS.items()))
        q, ans = r.choice([f"{k} capital", f"Tell me the capital of {k}.", f"Which city is the capital of {k}?", f"What's the capital of {k}?", f"capital of {k}?"]), f"The capital of {k} is {v}."
    elif r.random() < 0.1:
        k, v = r.choice(list(CAPITALS.items()))
        q, ans = r.choice([(f"Which country has the capital {v}?", f"{v} is the capital of {k}."), (f"{v} is the capital of which country?", f"{v} is the capital of {k}.")])
    else:
        q, ans = r.choice(ALL_FACTS)
    lead = r.choice(LEADS)
    if lead.endswith(", "):
        q = q[0].lower() + q[1:]
    k = r.random()
    q = lead + q
    if k < 0.08:
        q = q.rstrip("?")
    elif k < 0.16:
        q = q.lower()
    return q, ans, "I know this." if r.random() < 0.5 else None


def unknown(r):
    """Questions outside the tables: the honest answer is always the same."""
    t, u, w = r.choice(lx.UNKNOWN_TOPICS), invented(r).capitalize(), r.choice(WORDS)
    return r.choice([r.choice(lx.UNKNOWN_Q), f"What is the capital of {u}?", f"Who is {u}?", f"What is {a(invented(r))}?", f"How does {a(t)} work?", f"Why do we need {a(t)}?",
                     f"Who invented the {t}?", f"What is the best {t}?", f"How old is the oldest {t}?", f"Write a program about {a(t)}.", f"Explain the {t} to me.",
                     f"What happened in {r.randint(1000, 2030)}?", f"How much does {a(t)} cost?", f"Where can I buy {a(w)}?", f"How do I repair {a(t)}?",
                     f"What do you think about the {t}?", f"Is the {t} good or bad?", f"Who wrote {u}?", f"When was {u} born?", f"Why is the {w} {r.choice(lx.ADJ)}?",
                     f"Translate {w} into French.", f"Give me a recipe with {w}.", f"What is the history of the {t}?"])


def greet(r, held=False):
    n = person(r)
    q = r.choice([f"My name is {n}.", f"I am {n}.", f"I'm {n}.", f"Hello, my name is {n}.", f"Hello! My name is {n}.", f"Hi, I am {n}.", f"Hi! I'm {n}.", f"My name's {n}", f"Call me {n}.",
                  f"hi my name is {n}", f"Hey, {n} here."])
    return q, f"Nice to meet you, {n}! How can I help you?", f"The user is called {n}."


def chat(r, held=False):
    if r.random() < 0.45:
        return unknown(r), lx.UNKNOWN_A, None
    qs, ans = r.choice(CHAT)
    return r.choice(qs), ans, None


def tell_story(r, held=False):
    k = r.random()
    if k < 0.35:
        kind = creature(r)
        c, t = story(r, kind=kind)
        return r.choice([f"Tell me a story about {a(kind)}.", f"Write a short story about {a(kind)}.", f"Can you tell me a story about {a(kind)}?", f"story about {a(kind)}", f"Please tell me a story about {a(kind)}."]), t, f"The story is about {a(kind)} called {c.name}."
    if k < 0.5:
        n = person(r)
        c, t = story(r, name=n)
        return r.choice([f"Tell me a story about {n}.", f"Write a story about {n}."]), t, f"The story is about {n}."
    if k < 0.6:
        thing = r.choice(THINGS)
        c, t = story(r, thing=thing)
        return f"Tell me a story about {a(thing)}.", t, f"The story is about {a(thing)}."
    if k < 0.75:
        kind, n = creature(r), pet_name(r)
        c, t = story(r, kind=kind, name=n)
        return f"Tell me a story about {a(kind)} called {n}.", t, f"The story is about {a(kind)} called {n}."
    c, t = story(r)
    return r.choice(["Tell me a story.", "Tell me a short story.", "Write a story.", "Can you tell me a story?", "I would like to hear a story.", "A story, please."]), t, f"I will tell a story about {c.name}."


SINGLE = {"add": add, "subtract": sub, "multiply": mul, "compare": compare, "word_sum": word_sum, "add3": add3, "count": count, "sort": sort,
          "extreme": extreme, "reverse": reverse, "copy": copy, "pick": pick_item, "calendar": calendar, "fact": fact, "chat": chat, "greet": greet, "story": tell_story}
WEIGHTS = {"add": 14, "subtract": 8, "multiply": 4, "compare": 3, "word_sum": 3, "add3": 3, "count": 6, "sort": 18, "extreme": 3, "reverse": 7,
           "copy": 7, "pick": 4, "calendar": 2, "fact": 9, "chat": 6, "greet": 2, "story": 8}
NAMES_W, VALUES_W = list(WEIGHTS), list(WEIGHTS.values())


def single(r, only=None):
    t = only or r.choices(NAMES_W, VALUES_W)[0]
    return t, SINGLE[t](r)


# ---- recall: something told earlier, asked for later ----------------------------------------------------------------


def memory(r):
    """(statement, question, answer) about something that only this conversation knows; and what it is about."""
    n, c, w = person(r), r.choice(COLOURS), invented(r)
    k = r.randrange(12)
    if k == 0:
        p, kind = pet_name(r), r.choice(["dog", "cat", "rabbit", "pony", "duck", "brother", "sister", "teacher", "friend", "horse", "boat"])
        return (r.choice([f"My {kind} is called {p}.", f"My {kind}'s name is {p}.", f"I have a {kind} called {p}.", f"I have a {kind} named {p}."]),
                r.choice([f"What is my {kind} called?", f"What is the name of my {kind}?", f"What is my {kind}'s name?"]), f"Your {kind} is called {p}."), ("pet", kind)
    if k == 1:
        return (r.choice([f"My name is {n}.", f"I am {n}.", f"I am called {n}.", f"Hello! My name is {n}."]),
                r.choice(["What is my name?", "Do you remember my name?", "Who am I?", "What am I called?", "what's my name?"]), f"Your name is {n}."), ("name",)
    if k == 2:
        code, t = r.choice([str(r.randint(1000, 9999)), str(r.randint(10, 99)), w]), r.choice(THINGS)
        return (r.choice([f"The code for the {c} {t} is {code}.", f"The {c} {t} has the code {code}."]), r.choice([f"What is the code for the {c} {t}?", f"Which code has the {c} {t}?"]),
                f"The code for the {c} {t} is {code}."), ("code", c, t)
    if k == 3:
        f = plural(r.choice(FOODS)) if r.random() < 0.7 else w
        return (f"{n} likes {f} best.", r.choice([f"What does {n} like best?", f"What does {n} like?"]), f"{n} likes {f} best."), ("like", n)
    if k == 4:
        city = r.choice(CITIES) if r.random() < 0.6 else w.capitalize()
        return (f"{n} lives in {city}.", f"Where does {n} live?", f"{n} lives in {city}."), ("live", n)
    if k == 5:
        j = r.choice(lx.JOBS)
        return (f"{n} is {a(j)}.", r.choice([f"What is the job of {n}?", f"What does {n} do?"]), f"{n} is {a(j)}."), ("job", n)
    if k == 6:
        t, p = r.choice(THINGS), r.choice(PLACES)
        return (r.choice([f"I put the {t} in the {p}.", f"The {t} is in the {p}."]), r.choice([f"Where did I put the {t}?", f"Where is the {t}?"]), f"The {t} is in the {p}."), ("put", t)
    if k == 7:
        thing, v = r.choice([("colour", c), ("colour", c), ("food", plural(r.choice(FOODS))), ("animal", creature(r)), ("number", str(r.randint(1, 99))), ("city", r.choice(CITIES))])
        return (r.choice([f"My favourite {thing} is {v}.", f"I like {v} best of every {thing}."]), f"What is my favourite {thing}?", f"Your favourite {thing} is {v}."), ("favourite", thing)
    if k == 8:
        d, t = r.choice(DAYS), r.choice(["party", "meeting", "concert", "test", "game", "trip"])
        return (f"The {t} is on {d}.", r.choice([f"When is the {t}?", f"On which day is the {t}?"]), f"The {t} is on {d}."), ("when", t)
    if k == 9:
        city = r.choice(CITIES) if r.random() < 0.6 else w.capitalize()
        return (r.choice([f"I live in {city}.", f"I am from {city}."]), r.choice(["Where do I live?", "Which city do I live in?"]), f"You live in {city}."), ("i live",)
    if k == 10:
        age = r.randint(5, 90)
        return (f"{n} is {age} years old.", f"How old is {n}?", f"{n} is {age} years old."), ("age", n)
    word = w if r.random() < 0.6 else r.choice(WORDS)
    return (r.choice([f"The secret word is {word}.", f"The password is {word}.", f"Remember the word {word}."]),
            r.choice(["What is the word?", "Which word did I tell you?", "What was the word that I told you?"]), f"The word is {word}."), ("word",)


def memories(r, n):
    out, keys = [], set()
    while len(out) < n:
        m, key = memory(r)
        if key not in keys:
            keys.add(key)
            out.append(m)
    return out


FILL = ["fact", "sort", "add", "story", "copy", "count", "reverse", "chat", "story", "story"]


def filler_turns(r, chars):
    out, n = [], 0
    while n < chars:
        q, ans, _ = SINGLE[r.choice(FILL)](r)
        if n + len(q) + len(ans) > chars + 900:
            continue
        out += [user(q), bot(ans)]
        n += len(q) + len(ans) + 60
    return out


def recall(r, chars=None):
    """chars: rough characters between the statement and the question."""
    ms = memories(r, r.randint(1, 5))
    target = r.choice(ms)
    chars = r.choice([0, 100, 300, 800, 1500]) if chars is None else chars
    ask = target[1].lower() if r.random() < 0.05 else target[1] if r.random() < 0.8 else r.choice(["Tell me: ", "Now tell me: ", "One more thing. "]) + target[1]
    k = r.random()
    if k < 0.35:  # told in one message, chat between
        msgs = [user(r.choice(["Remember this. ", "Please remember: ", ""]) + " ".join(m[0] for m in ms)), bot(r.choice(["I will remember that.", "Okay, I will remember that."]))]
        msgs += filler_turns(r, chars)
    elif k < 0.6:  # told one by one
        msgs = []
        for m in ms:
            said = r.choice(["Hello! ", "", "", "", "Please remember: "]) + m[0]
            own = m[2].startswith("Your name is ")
            msgs += [user(said), bot(f"Nice to meet you, {m[2][13:-1]}! How can I help you?" if own else "I will remember that.")]
        msgs += filler_turns(r, chars)
    elif k < 0.75:  # in the system prompt
        msgs = [{"role": "system", "content": " ".join(m[0] for m in ms)}]
        msgs += filler_turns(r, chars)
    else:  # inside a long text
        text, n = [], 0
        while n < chars:
            s = scene(r)
            text.append(s)
            n += len(s)
        for m in ms:
            text.insert(r.randint(0, min(2, len(text))), m[0])
        msgs = [user(r.choice(["Read this text.\n\n", "Here are my notes.\n\n", ""]) + " ".join(text)), bot("I have read it.")]
    if len(ms) > 1 and r.random() < 0.3:  # two questions
        other = r.choice([m for m in ms if m is not target])
        msgs += [user(other[1]), bot(other[2])]
    return Conv(msgs + [user(ask), bot(target[2], think=f"The user told me: {target[0]}")], "recall")


def story_question(r):
    c, t = story(r)
    q, ans = r.choice([("Who is the story about?", f"The story is about {c.name}."), (f"What is the friend of {c.name} called?", f"The friend is called {c.friend}."),
                       (f"What kind of animal is {c.friend}?", f"{c.friend} is {a(c.friend_kind)}.")])
    if c.friend not in t or f"{c.friend_kind}" not in t:
        q, ans = "Who is the story about?", f"The story is about {c.name}."
    if r.random() < 0.5:
        return Conv([user(f"{t}\n\n{q}"), bot(ans)], "story_question")
    return Conv([user("Tell me a story."), bot(t), user(q), bot(ans)], "story_question")


def persona(r):
    n = person(r)
    sysm = {"role": "system", "content": r.choice([f"Your name is {n}.", f"You are {n}, a helpful assistant.", f"You are called {n}."])}
    q = r.choice(["What is your name?", "Who are you?", "What are you called?"])
    return Conv([sysm, user(q), bot(f"My name is {n}.")], "persona")


# ---- tools ----------------------------------------------------------------------------------------------------------


def schema(name, desc, params, required=None):
    return {"type": "function", "function": {"name": name, "description": desc, "parameters": {
        "type": "object", "properties": {k: {"type": t} for k, t in params.items()}, "required": required or list(params)}}}


def t_weather(r):
    city = r.choice(CITIES)
    deg, sky = r.randint(-5, 35), r.choice(["sunny", "rainy", "cloudy", "windy", "snowy"])
    return schema("get_weather", "Get the weather of a city", {"city": "string"}), \
        r.choice([f"What is the weather in {city}?", f"How is the weather in {city} today?", f"Is it raining in {city}?"]), {"city": city}, \
        json.dumps({"temperature": deg, "sky": sky}), f"It is {sky} in {city}, with {deg} degrees."


def t_time(r):
    city = r.choice(CITIES)
    t = f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"
    return schema("get_time", "Get the time in a city", {"city": "string"}), r.choice([f"What time is it in {city}?", f"Tell me the time in {city}."]), {"city": city}, \
        json.dumps({"time": t}), f"It is {t} in {city}."


def t_calc(r):
    x, y, op = r.randint(100, 9999), r.randint(100, 9999), r.choice("+-*")
    res = {"+": x + y, "-": x - y, "*": x * y}[op]
    return schema("calculator", "Compute an expression", {"expression": "string"}), r.choice([f"Compute {x} {op} {y}.", f"What is {x} {op} {y}?"]), \
        {"expression": f"{x} {op} {y}"}, json.dumps({"result": res}), f"{x} {op} {y} = {res}"


def t_timer(r):
    m = r.randint(1, 60)
    return schema("set_timer", "Set a timer", {"minutes": "integer"}), r.choice([f"Set a timer for {m} minutes.", f"Please set a timer for {m} minutes."]), {"minutes": m}, \
        json.dumps({"ok": True}), f"The timer is set for {m} minutes."


def t_send(r):
    n, s = person(r), r.choice(["I am late", "see you soon", "the cake is ready", "happy birthday", "I am at home", "come to the park", "thank you"])
    return schema("send_message", "Send a message to a person", {"to": "string", "text": "string"}), \
        r.choice([f"Send a message to {n}: {s}", f"Tell {n}: {s}", f"Write to {n}: {s}"]), {"to": n, "text": s}, json.dumps({"ok": True}), f"I sent the message to {n}."


def t_todo(r):
    i = r.choice(["buy", "find", "clean", "bring"]) + " the " + r.choice(THINGS + ["milk", "bread"])
    return schema("add_todo", "Add an item to the list of things to do", {"item": "string"}), r.choice([f"Add to my list: {i}", f"Put this on my list: {i}"]), {"item": i}, \
        json.dumps({"ok": True}), f"I added it to your list: {i}"


def t_search(r):
    w = r.choice(ANIMALS + THINGS + CITIES)
    return schema("search", "Search the web", {"query": "string"}), r.choice([f"Search for {w}.", f"Search the web for {w}.", f"Look up {w}."]), {"query": w}, \
        json.dumps({"results": r.randint(1, 99)}), None


def t_play(r):
    s = r.choice(WORDS) + " song"
    return schema("play_music", "Play a song", {"song": "string"}), r.choice([f"Play the {s}.", f"Please play the {s}."]), {"song": f"{s}"}, json.dumps({"ok": True}), f"Now playing: {s}"


def t_light(r):
    room, st = r.choice(["kitchen", "bedroom", "garden", "hall", "bathroom"]), r.choice(["on", "off"])
    return schema("set_light", "Turn a light on or off", {"room": "string", "state": "string"}), r.choice([f"Turn {st} the light in the {room}.", f"Turn the {room} light {st}."]), \
        {"room": room, "state": st}, json.dumps({"ok": True}), f"The light in the {room} is {st}."


TOOLS = [t_weather, t_time, t_calc, t_timer, t_send, t_todo, t_search, t_play, t_light]


def tool(r, held=False):
    chosen = r.sample(TOOLS, r.randint(1, 4))
    made = [t(r) for t in chosen]
    sch, q, args, result, final = made[0]
    if r.random() < 0.3:  # another name, so that names are read and not only known
        alias = r.choice(["", "my_", "do_", "api_"]) + sch["function"]["name"] + r.choice(["", "_2", "_now"])
        sch["function"]["name"] = alias
    name = sch["function"]["name"]
    tools = [m[0] for m in made]
    r.shuffle(tools)
    msgs = [{"role": "system", "content": "You are a helpful assistant."}] if r.random() < 0.3 else []
    think = f"I will call {name}."
    if r.random() < 0.15:  # tools are there, but the question needs none
        t, (q, ans, th) = single(r, r.choice(["fact", "chat", "sort", "reverse"]))
        return Conv(msgs + [user(q), bot(ans, think=th or "I need no tool.")], "tool_none", tools=tools)
    msgs += [user(q), bot("", think=think, call={"name": name, "arguments": args})]
    if r.random() < 0.5 and not held:
        final = final or f"I found {json.loads(result)['results']} results for {args['query']}."
        msgs += [{"role": "tool", "content": result}, bot(final, think="I have the result.")]
    return Conv(msgs, "tool", tools=tools)


# ---- the mixture ----------------------------------------------------------------------------------------------------


def conversation(r, long=False):
    """One training conversation; long: with a recall over about 2,000 tokens."""
    if long:
        return with_think(r, recall(r, chars=r.choice([2500, 5000, 7000, 8000])))
    k = r.random()
    if k < 0.24:
        return with_think(r, recall(r))
    if k < 0.33:
        return with_think(r, tool(r))
    if k < 0.36:
        return with_think(r, story_question(r))
    if k < 0.375:
        return with_think(r, persona(r))
    n = 1 if r.random() < 0.6 else r.randint(2, 4)
    msgs = [{"role": "system", "content": r.choice(["You are a helpful assistant.", "You are zinc, a small assistant.", "Answer briefly."])}] if r.random() < 0.15 else []
    for i in range(n):
        t, (q, ans, th) = single(r)
        msgs += [user(q), bot(ans, think=th or thought(t))]
    c = Conv(msgs, t)
    c = with_think(r, c)
    if c.think is not None and t == "add" and r.random() < 0.4:  # with room to think, three digits
        q, ans, th = add(r, big=True)
        c.messages[-2:] = [user(q), bot(ans, think=th)]
    return c


def thought(task):
    return {"sort": "I will put the numbers in order.", "reverse": "I will write the list backwards.", "copy": "I will repeat the text.", "count": "I will count.",
            "chat": "The user is talking to me.", "fact": "I know this.", "compare": "I will compare the numbers.", "pick": "I will look at the list.",
            "calendar": "I know the order of the days and months.", "extreme": "I will compare the numbers."}.get(task, "I will answer the question.")


def with_think(r, c):
    if r.random() < 0.3:
        c.think = True
        for m in c.messages:
            if m["role"] == "assistant" and not m.get("think"):
                m["think"] = thought(c.task)
    return c


# ---- held-out evaluation --------------------------------------------------------------------------------------------

EVAL = ["add_2digit", "subtract", "multiply", "sort_5", "reverse", "count", "copy", "fact", "recall_100", "recall_2000", "tool_call", "tool_answer", "think_add_3digit"]


def heldout(task, r):
    """(conversation whose last message is the user's or a tool's, expected answer text)."""
    think = None
    if task == "add_2digit":
        q, ans, _ = add(r, held=True)
    elif task == "think_add_3digit":
        q, ans, _ = add(r, held=True, big=True)
        think = True
    elif task == "sort_5":
        q, ans, _ = sort(r, n=5)
    elif task in ("recall_100", "recall_2000"):
        c = recall(r, chars=350 if task == "recall_100" else 6800)
        return Conv(c.messages[:-1], task), c.messages[-1]["content"]
    elif task in ("tool_call", "tool_answer"):
        while True:
            c = tool(r, held=task == "tool_call")
            if c.task == "tool" and (task == "tool_call") == (c.messages[-1].get("call") is not None):
                break
        return Conv(c.messages[:-1], task, tools=c.tools), assistant_text(c.messages[-1])
    else:
        name = {"subtract": "subtract", "multiply": "multiply"}.get(task, task)
        fn = SINGLE[name]
        q, ans, _ = fn(r, held=True) if name == "subtract" else fn(r)
    return Conv([user(q)], task, think=think), ans


def facts_eval():
    return [(Conv([user(q)], "fact"), ans) for q, ans in ALL_FACTS]


if __name__ == "__main__":
    import sys
    r = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for i in range(int(sys.argv[2]) if len(sys.argv) > 2 else 12):
        c = conversation(r, long=False)
        print(f"---- {c.task} think={c.think}")
        print("".join(("\033[32m" + t + "\033[0m") if tr else t for t, tr in render(c)))
