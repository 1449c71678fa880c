"""libzinc from Python: one file over ctypes, without dependencies. doc/libzinc.md has more.

    import zinc

    with zinc.Model("model.gguf") as model:
        with model.chat(system="Be brief.") as chat:
            for piece in chat.say("Hello!", sampling="temp=0.7"):
                print(piece, end="", flush=True)
        with model.session() as session:
            print(session.generate("Once upon a time", max_tokens=50).text())
        print(model.tokenize("some text"))

A piece is a str; piece.kind is "text", "reasoning" or "call" (then piece.name is the tool, and the str its arguments
in JSON). Errors are zinc.Error, an OSError with errno; what was cancelled raises zinc.Cancelled. Objects close
themselves when nobody has them any more, by `with` or close() earlier, in any order. Threads: as zinc.h says; calls let
other threads of Python run.

The library is looked for where $LIBZINC says, else beside this file, in the build folder of its checkout, in its
installation, and where the system looks.
"""

import ctypes
import ctypes.util
import errno
import json
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

__all__ = ["Model", "Session", "Chat", "Generation", "Sampler", "Piece", "Error", "Cancelled", "version", "tiers"]


class Error(OSError):
    """What libzinc says of a failure: errno, and a line in strerror."""


class Cancelled(Error):
    """Session.cancel() or a progress function ended it."""


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    places = (
        [os.environ.get("LIBZINC")]
        if os.environ.get("LIBZINC")
        else [
            os.path.join(here, "libzinc.so.0"),
            os.path.join(here, "..", "build", "libzinc.so.0"),
            os.path.join(here, "..", "..", "..", "lib", "libzinc.so.0"),
        ]
    )
    for place in places:
        if os.environ.get("LIBZINC") or os.path.exists(place):
            return ctypes.CDLL(place)
    return ctypes.CDLL(ctypes.util.find_library("zinc") or "libzinc.so.0")


class _Struct(ctypes.Structure):
    """Its first field is its size, as zinc.h wants it."""

    def __init__(self, **fields):
        super().__init__(**fields)
        self.size = ctypes.sizeof(self)


class _Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", ctypes.c_char * 508)]


_PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint64, c_uint64)
_LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p, c_char_p)


class _ModelOpts(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("path", c_char_p),
        ("tier", c_char_p),
        ("plan", c_char_p),
        ("kv", c_char_p),
        ("device_name", c_char_p),
        ("pooling", c_char_p),
        ("device", c_int32),
        ("flags", c_uint32),
        ("context", c_uint32),
        ("sessions", c_uint32),
        ("chunk", c_uint32),
        ("threads", c_uint32),
        ("progress", _PROGRESS),
        ("progress_user", c_void_p),
        ("log", _LOG),
        ("log_user", c_void_p),
        ("log_level", c_int32),
        ("kv_edge", c_uint32),
        ("rope_scaling", c_char_p),
        ("rope_factor", ctypes.c_float),
        ("reserved", c_uint32),
    ]


class _ModelInfo(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("path", c_char_p),
        ("label", c_char_p),
        ("name", c_char_p),
        ("family", c_char_p),
        ("weights", c_char_p),
        ("tier", c_char_p),
        ("plan", c_char_p),
        ("device", c_char_p),
        ("chat_format", c_char_p),
        ("pooling", c_char_p),
        ("n_vocab", c_uint32),
        ("n_layer", c_uint32),
        ("n_embd", c_uint32),
        ("n_vector", c_uint32),
        ("context", c_uint32),
        ("context_trained", c_uint32),
        ("sessions", c_uint32),
        ("chunk", c_uint32),
        ("n_params", c_uint64),
        ("file_bytes", c_uint64),
        ("weight_bytes", c_uint64),
        ("cache_bytes", c_uint64),
        ("scratch_bytes", c_uint64),
        ("load_ns", c_uint64),
        ("has_vocab", c_uint32),
        ("chat_guessed", c_uint32),
        ("recurrent", c_uint32),
        ("reserved", c_uint32),
    ]


class _Message(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("role", c_char_p),
        ("text", c_char_p),
        ("reasoning", c_char_p),
        ("tool_calls", c_char_p),
        ("name", c_char_p),
        ("call_id", c_char_p),
    ]


class _PromptOpts(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("tools", c_char_p),
        ("effort", c_char_p),
        ("date", c_char_p),
        ("think", c_uint32),
        ("continue_final", c_uint32),
    ]


class _LogitBias(ctypes.Structure):
    _fields_ = [("id", c_int32), ("bias", c_float)]


class _GenOpts(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("sampling", c_char_p),
        ("logit_bias", POINTER(_LogitBias)),
        ("stop", POINTER(c_char_p)),
        ("dry_breakers", POINTER(c_char_p)),
        ("json_schema", c_char_p),
        ("grammar", c_char_p),
        ("tools", c_char_p),
        ("tool_choice", c_char_p),
        ("n_logit_bias", c_uint32),
        ("n_stop", c_uint32),
        ("n_dry_breakers", c_uint32),
        ("max_tokens", c_uint32),
        ("flags", c_uint32),
        ("think", c_uint32),
        ("think_tokens", c_uint32),
        ("draft", c_uint32),
        ("progress", _PROGRESS),
        ("progress_user", c_void_p),
    ]


class _Piece(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("text", c_void_p),
        ("n_text", c_size_t),
        ("name", c_char_p),
        ("kind", c_int32),
        ("complete", c_uint32),
    ]


class _GenInfo(_Struct):
    _fields_ = [
        ("size", c_size_t),
        ("tokens", POINTER(c_int32)),
        ("n_tokens", c_uint32),
        ("n_prompt", c_uint32),
        ("n_reused", c_uint32),
        ("n_thought", c_uint32),
        ("end", c_int32),
        ("stop_index", c_uint32),
        ("seed", c_uint32),
        ("reserved", c_uint32),
        ("prompt_ns", c_uint64),
        ("decode_ns", c_uint64),
    ]


class _ChatOpts(_Struct):
    _fields_ = [("size", c_size_t), ("system", c_char_p), ("think", c_uint32), ("reserved", c_uint32)]


_lib = _load()


def _declare(name, *args, result=c_int):
    f = getattr(_lib, name)
    f.argtypes = args
    f.restype = result


_E = POINTER(_Error)
_IDS = POINTER(c_int32)
_SIZE = POINTER(c_size_t)
_declare("zinc_version", result=c_char_p)
_declare("zinc_tier_name", c_size_t, result=c_char_p)
_declare("zinc_model_open", POINTER(_ModelOpts), POINTER(c_void_p), _E)
_declare("zinc_model_close", c_void_p, result=None)
_declare("zinc_model_info_get", c_void_p, POINTER(_ModelInfo), _E)
_declare("zinc_tokenize", c_void_p, c_char_p, c_size_t, c_uint32, _IDS, c_size_t, _SIZE, _E)
_declare("zinc_detokenize", c_void_p, _IDS, c_size_t, c_uint32, c_void_p, c_size_t, _SIZE, _E)
_declare("zinc_is_end", c_void_p, c_int32)
_declare("zinc_prompt", c_void_p, POINTER(_Message), c_size_t, POINTER(_PromptOpts), _IDS, c_size_t, _SIZE, _E)
_declare("zinc_session_open", c_void_p, POINTER(c_void_p), _E)
_declare("zinc_session_close", c_void_p, result=None)
_declare("zinc_session_eval", c_void_p, _IDS, c_size_t, POINTER(c_float), c_size_t, _E)
_declare("zinc_session_score", c_void_p, _IDS, c_size_t, POINTER(c_float), _E)
_declare("zinc_session_tokens", c_void_p, _IDS, c_size_t, _SIZE, _E)
_declare("zinc_session_truncate", c_void_p, c_size_t, _E)
_declare("zinc_session_cancel", c_void_p, result=None)
_declare("zinc_generate", c_void_p, _IDS, c_size_t, POINTER(_GenOpts), POINTER(c_void_p), _E)
_declare("zinc_gen_next", c_void_p, POINTER(_Piece), _E)
_declare("zinc_gen_info_get", c_void_p, POINTER(_GenInfo), _E)
_declare("zinc_gen_close", c_void_p, result=None)
_declare("zinc_sampler_open", c_void_p, POINTER(_GenOpts), POINTER(c_void_p), _E)
_declare("zinc_sampler_choose", c_void_p, POINTER(c_float), c_size_t, _IDS, _E)
_declare("zinc_sampler_accept", c_void_p, c_int32, _E)
_declare("zinc_sampler_close", c_void_p, result=None)
_declare("zinc_chat_open", c_void_p, POINTER(_ChatOpts), POINTER(c_void_p), _E)
_declare("zinc_chat_close", c_void_p, result=None)
_declare("zinc_chat_say", c_void_p, c_char_p, POINTER(_GenOpts), POINTER(c_void_p), _E)
_declare("zinc_chat_reset", c_void_p, c_char_p, _E)
_declare("zinc_chat_undo", c_void_p, _E)
_declare("zinc_chat_load", c_void_p, POINTER(_Message), c_size_t, _E)
_declare("zinc_chat_message", c_void_p, c_size_t, POINTER(_Message), _E)
_declare("zinc_embed", c_void_p, POINTER(c_char_p), c_size_t, c_uint32, POINTER(c_float), c_size_t, _SIZE, _E)
_declare("zinc_rank", c_void_p, c_char_p, POINTER(c_char_p), c_size_t, POINTER(c_double), _E)

_MODEL_FLAGS = {"vocabulary": 1, "exact": 2, "ignore_memory": 4, "fit": 16, "pin": 32}
_MODEL_DEVICE = 8
_ADD_SPECIAL, _PARSE_SPECIAL, _SHOW_SPECIAL = 1, 2, 4
_THINK = {None: 0, True: 1, False: 2}
_IGNORE_END, _SHOW, _ANSWER, _CONTINUE = 1, 2, 4, 8
_KINDS = ("text", "reasoning", "call")
_ENDS = ("running", "stop", "stop_text", "length", "context", "cancelled", "error")
_LEVELS = ("error", "warning", "info", "debug")


def version():
    """The library's, "0.1.0"."""
    return _lib.zinc_version().decode()


def tiers():
    """The names of the tiers that the library has, "auto" first."""
    names, i = [], 0
    while (name := _lib.zinc_tier_name(i)) is not None:
        names.append(name.decode())
        i += 1
    return names


def _call(function, *args):
    e = _Error()
    rc = function(*args, ctypes.byref(e))
    if rc < 0:
        kind = Cancelled if -rc == errno.ECANCELED else Error
        raise kind(-rc, e.text.decode(errors="replace"))
    return rc


def _bytes(text):
    if text is None:
        return None
    data = (
        os.fsencode(text)
        if isinstance(text, os.PathLike)
        else text.encode() if isinstance(text, str) else bytes(text)
    )
    if b"\0" in data:
        raise ValueError("a NUL inside of a text")
    return data


def _json(value):
    return _bytes(value if value is None or isinstance(value, (str, bytes)) else json.dumps(value))


def _ids(tokens):
    tokens = list(tokens)
    return (c_int32 * len(tokens))(*tokens), len(tokens)


def _array(ask, kind):
    """The array that ask(buffer, cap, &n) hands out: its length first."""
    n = c_size_t()
    ask(None, 0, ctypes.byref(n))
    buffer = (kind * max(n.value, 1))()
    ask(buffer, n.value, ctypes.byref(n))
    return buffer, n.value


class _Callback:
    """A function of Python's as a progress function; what it raises stops the work and is raised by the call."""

    def __init__(self, function):
        self.raised = None
        self.c = (
            _PROGRESS(0)
            if function is None
            else _PROGRESS(lambda user, what, done, total: self._run(function, what, done, total))
        )

    def _run(self, function, what, done, total):
        try:
            return 1 if function(what.decode(), done, total) is False else 0
        except BaseException as e:  # pylint: disable=broad-except
            self.raised = e
            return 1

    def call(self, function, *args):
        try:
            return _call(function, *args)
        except Cancelled:
            if self.raised is not None:
                raised, self.raised = self.raised, None
                raise raised from None
            raise


class _Handle:
    """A handle of the library's, closed once."""

    _close = None

    def __init__(self):
        self._h = c_void_p()

    def close(self):
        h, self._h = getattr(self, "_h", None), None
        if h:
            type(self)._close(h)

    def _open(self):
        if not self._h:
            raise ValueError("%s is closed" % type(self).__name__)
        return self._h

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()


def _messages(messages):
    """Messages as dicts, {"role": .., "content": ..}, as APIs have them; "text" stands for "content" too."""

    def one(m):
        return _Message(
            role=_bytes(m["role"]),
            text=_bytes(m.get("content", m.get("text"))),
            reasoning=_bytes(m.get("reasoning")),
            tool_calls=_json(m.get("tool_calls")),
            name=_bytes(m.get("name")),
            call_id=_bytes(m.get("tool_call_id")),
        )

    made = [one(m) for m in messages]
    return (_Message * max(len(made), 1))(*made), len(made)


def _gen_opts(
    progress,
    flags=0,
    *,
    sampling=None,
    max_tokens=0,
    stop=(),
    logit_bias=None,
    dry_breakers=(),
    json_schema=None,
    grammar=None,
    tools=None,
    tool_choice=None,
    ignore_end=False,
    show_special=False,
    think=None,
    think_tokens=0,
    draft=0,
):
    if isinstance(sampling, dict):
        sampling = ",".join("%s=%s" % (name.replace("_", "-"), value) for name, value in sampling.items())
    stop = [stop] if isinstance(stop, str) else list(stop)
    bias = list((logit_bias or {}).items())
    dry_breakers = list(dry_breakers)
    return _GenOpts(
        sampling=_bytes(sampling),
        max_tokens=max_tokens,
        n_stop=len(stop),
        n_logit_bias=len(bias),
        n_dry_breakers=len(dry_breakers),
        stop=(c_char_p * len(stop))(*map(_bytes, stop)),
        logit_bias=(_LogitBias * len(bias))(*bias),
        dry_breakers=(c_char_p * len(dry_breakers))(*map(_bytes, dry_breakers)),
        json_schema=_json(json_schema),
        grammar=_bytes(grammar),
        tools=_json(tools),
        tool_choice=_bytes(tool_choice),
        flags=flags | _IGNORE_END * ignore_end | _SHOW * show_special,
        think=_THINK[think],
        think_tokens=think_tokens,
        draft=draft,
        progress=progress.c,
    )


class Model(_Handle):
    """A GGUF file on a tier. Options are zinc_model_opts'; progress(what, done, total) returns False to stop;
    log(level, module, line) takes what the library has to say. model.info: a dict, as zinc_model_info."""

    _close = _lib.zinc_model_close

    def __init__(
        self,
        path,
        *,
        tier=None,
        plan=None,
        kv=None,
        kv_edge=0,
        rope_scaling=None,
        rope_factor=0,
        device=None,
        device_name=None,
        pooling=None,
        context=0,
        sessions=0,
        chunk=0,
        threads=0,
        progress=None,
        log=None,
        log_level="warning",
        **flags,
    ):
        super().__init__()
        unknown = set(flags) - set(_MODEL_FLAGS)
        if unknown:
            raise TypeError("unknown option %s" % ", ".join(sorted(unknown)))
        progress = _Callback(progress)
        self._log = (
            _LOG(0)
            if log is None
            else _LOG(
                lambda user, level, module, line: log(_LEVELS[level], module.decode(), line.decode(errors="replace"))
            )
        )
        o = _ModelOpts(
            path=_bytes(path),
            tier=_bytes(tier),
            plan=_bytes(plan),
            kv=_bytes(kv),
            kv_edge=kv_edge,
            rope_scaling=_bytes(rope_scaling),
            rope_factor=rope_factor,
            device=device or 0,
            device_name=_bytes(device_name),
            pooling=_bytes(pooling),
            context=context,
            sessions=sessions,
            chunk=chunk,
            threads=threads,
            progress=progress.c,
            log=self._log,
            log_level=_LEVELS.index(log_level),
            flags=sum(_MODEL_FLAGS[f] for f in flags if flags[f]) | (_MODEL_DEVICE if device is not None else 0),
        )
        progress.call(_lib.zinc_model_open, ctypes.byref(o), ctypes.byref(self._h))

    @property
    def info(self):
        i = _ModelInfo()
        _call(_lib.zinc_model_info_get, self._open(), ctypes.byref(i))
        values = {name: getattr(i, name) for name, _ in i._fields_ if name not in ("size", "reserved")}
        return {name: v.decode(errors="replace") if isinstance(v, bytes) else v for name, v in values.items()}

    def tokenize(self, text, *, add_special=False, parse_special=False):
        data = text if isinstance(text, bytes) else text.encode()
        flags = _ADD_SPECIAL * add_special | _PARSE_SPECIAL * parse_special
        ids, n = _array(lambda *out: _call(_lib.zinc_tokenize, self._open(), data, len(data), flags, *out), c_int32)
        return ids[:n]

    def detokenize(self, tokens, *, show_special=False):
        """bytes: a token may be a part of a character."""
        ids, n_ids = _ids(tokens)
        flags = _SHOW_SPECIAL * show_special
        text, n = _array(
            lambda *out: _call(_lib.zinc_detokenize, self._open(), ids, n_ids, flags, *out), ctypes.c_char
        )
        return text.raw[:n]

    def is_end(self, token):
        return bool(_lib.zinc_is_end(self._open(), token))

    def prompt(self, messages, *, tools=None, effort=None, date=None, think=None, continue_final=False):
        """Messages, [{"role": .., "content": ..}], in the model's chat format: tokens for
        Session.generate(answer=True)."""
        m, n_m = _messages(messages)
        o = _PromptOpts(
            tools=_json(tools),
            effort=_bytes(effort),
            date=_bytes(date),
            think=_THINK[think],
            continue_final=continue_final,
        )
        ids, n = _array(lambda *out: _call(_lib.zinc_prompt, self._open(), m, n_m, ctypes.byref(o), *out), c_int32)
        return ids[:n]

    def session(self):
        return Session(self)

    def chat(self, system=None, *, think=None):
        """A conversation over a session of its own."""
        session = Session(self)
        try:
            return Chat(session, system, think=think, owns_session=True)
        except BaseException:
            session.close()
            raise

    def sampler(self, **options):
        return Sampler(self, **options)

    def embed(self, texts, *, raw=False):
        """A list of floats for each text; models with pooling."""
        c = (c_char_p * len(texts))(*map(_bytes, texts))
        v, n = _array(lambda *out: _call(_lib.zinc_embed, self._open(), c, len(texts), int(raw), *out), c_float)
        width = n // len(texts) if texts else 0
        return [v[i * width : (i + 1) * width] for i in range(len(texts))]

    def rank(self, query, texts):
        """How well each text answers the query, 0 to 1."""
        c = (c_char_p * len(texts))(*map(_bytes, texts))
        scores = (c_double * max(len(texts), 1))()
        _call(_lib.zinc_rank, self._open(), _bytes(query), c, len(texts), scores)
        return scores[: len(texts)]


class Session(_Handle):
    """One timeline of tokens over a model; one thread at a time, but for cancel()."""

    _close = _lib.zinc_session_close

    def __init__(self, model):
        super().__init__()
        self.model = model
        _call(_lib.zinc_session_open, model._open(), ctypes.byref(self._h))

    @property
    def tokens(self):
        ids, n = _array(lambda *out: _call(_lib.zinc_session_tokens, self._open(), *out), c_int32)
        return ids[:n]

    def truncate(self, n):
        _call(_lib.zinc_session_truncate, self._open(), n)

    def eval(self, tokens, *, logits=True):
        """Evaluates tokens; the last one's logits, a ctypes array of floats (numpy.frombuffer reads it), or None."""
        ids, n = _ids(tokens)
        n_vocab = self.model.info["n_vocab"] if logits else 0
        out = (c_float * n_vocab)() if logits else None
        _call(_lib.zinc_session_eval, self._open(), ids, n, out, n_vocab)
        return out

    def score(self, tokens):
        """Evaluates tokens; the logarithm of the probability of each but the first."""
        ids, n = _ids(tokens)
        out = (c_float * max(n - 1, 1))()
        _call(_lib.zinc_session_score, self._open(), ids, n, out)
        return out[: max(n - 1, 0)]

    def generate(self, prompt, *, answer=False, continue_final=False, progress=None, **options):
        """Continues a text or tokens, which stand for the whole session. answer: the prompt is Model.prompt's.
        Options are zinc_gen_opts': sampling (a text, or a dict), max_tokens, stop, json_schema, tools, ..."""
        if isinstance(prompt, (str, bytes)):
            prompt = self.model.tokenize(prompt, add_special=True, parse_special=True)
        ids, n = _ids(prompt)
        flags = _ANSWER * answer | _CONTINUE * continue_final
        return Generation(self, _lib.zinc_generate, (self._open(), ids, n), _Callback(progress), flags, options)

    def cancel(self):
        """From any thread: ends what runs for this session, or what runs next."""
        _lib.zinc_session_cancel(self._open())


class Piece(str):
    """A piece of an answer."""

    kind, name, complete = "text", None, True


class Generation(_Handle):
    """An answer in the making, an iterator of pieces."""

    _close = _lib.zinc_gen_close

    def __init__(self, session, function, args, progress, flags, options):
        super().__init__()
        self.session = session
        self._progress = progress
        o = _gen_opts(progress, flags, **options)
        _call(function, *args, ctypes.byref(o), ctypes.byref(self._h))

    def __iter__(self):
        return self

    def __next__(self):
        p = _Piece()
        if self._progress.call(_lib.zinc_gen_next, self._open(), ctypes.byref(p)) == 0:
            raise StopIteration
        piece = Piece(ctypes.string_at(p.text, p.n_text).decode(errors="replace"))
        piece.kind = _KINDS[p.kind]
        if piece.kind == "call":
            piece.name, piece.complete = p.name.decode(), bool(p.complete)
        return piece

    def text(self):
        """The text of all that is to come, without reasoning and calls."""
        return "".join(p for p in self if p.kind == "text")

    @property
    def info(self):
        """A dict: tokens, n_prompt, n_reused, n_thought, end ("running", "stop", "stop_text", "length", "context",
        "cancelled", "error"), stop_index, seed, prompt_ns, decode_ns."""
        i = _GenInfo()
        _call(_lib.zinc_gen_info_get, self._open(), ctypes.byref(i))
        values = {name: getattr(i, name) for name, _ in i._fields_ if name not in ("size", "reserved", "n_tokens")}
        values["tokens"] = i.tokens[: i.n_tokens] if i.n_tokens else []
        values["end"] = _ENDS[i.end]
        return values


class Chat(_Handle):
    """A conversation; a turn evaluates only what is new."""

    _close = _lib.zinc_chat_close

    def __init__(self, session, system=None, *, think=None, owns_session=False):
        super().__init__()
        self.session = session
        self._owns_session = owns_session
        o = _ChatOpts(system=_bytes(system), think=_THINK[think])
        _call(_lib.zinc_chat_open, session._open(), ctypes.byref(o), ctypes.byref(self._h))

    def close(self):
        super().close()
        if getattr(self, "_owns_session", False):
            self.session.close()

    def say(self, text, *, progress=None, **options):
        """The answer, an iterator of pieces; options as in Session.generate."""
        return Generation(
            self.session, _lib.zinc_chat_say, (self._open(), _bytes(text)), _Callback(progress), 0, options
        )

    def reset(self, system=None):
        _call(_lib.zinc_chat_reset, self._open(), _bytes(system))

    def undo(self):
        _call(_lib.zinc_chat_undo, self._open())

    def load(self, messages):
        m, n = _messages(messages)
        _call(_lib.zinc_chat_load, self._open(), m, n)

    @property
    def messages(self):
        made = []
        while True:
            m = _Message()
            try:
                _call(_lib.zinc_chat_message, self._open(), len(made), ctypes.byref(m))
            except Error as e:
                if e.errno == errno.ENOENT:
                    return made
                raise
            made.append({"role": m.role.decode(), "content": m.text.decode(errors="replace")})
            if m.reasoning:
                made[-1]["reasoning"] = m.reasoning.decode(errors="replace")

    def cancel(self):
        self.session.cancel()


class Sampler(_Handle):
    """Chooses tokens by logits."""

    _close = _lib.zinc_sampler_close

    def __init__(self, model, **options):
        super().__init__()
        self.model = model
        o = _gen_opts(_Callback(None), **options)
        _call(_lib.zinc_sampler_open, model._open(), ctypes.byref(o), ctypes.byref(self._h))

    def choose(self, logits):
        id_ = c_int32()
        if not isinstance(logits, ctypes.Array):
            logits = (c_float * len(logits))(*logits)
        _call(_lib.zinc_sampler_choose, self._open(), logits, len(logits), ctypes.byref(id_))
        return id_.value

    def accept(self, token):
        _call(_lib.zinc_sampler_accept, self._open(), token)
