"""tests/real/ids_released.py: the vocabulary of a GGUF file as its makers released it: a tokenizer of Hugging Face's
`tokenizers`, an Encoding of `tiktoken` where ids are ranks, a model of `sentencepiece` where it has scores.

The file gives tokens, merges, scores and types; how text is normalized and cut is not in it, and is written here as
the named release has it."""

import struct
from dataclasses import dataclass

import sentencepiece
import tiktoken
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass
class Rules:
    words: str | None  # the released pattern; None: not cut by one
    ignore_merges: bool = False
    normalizer: str | None = None
    add_bos: bool = False  # where the file has no tokenizer.ggml.add_bos_token
    each_digit: bool = False  # digits first, one by one


# By tokenizer.ggml.pre (model gpt2), from: gpt-2 encoder.py of openai/gpt-2; llama-bpe llama/tokenizer.py of
# meta-llama/llama3 and Meta-Llama-3-8B's tokenizer.json; qwen2 tokenization_qwen2.py of transformers and Qwen2's
# tokenizer.json; qwen35 Qwen3.5's tokenizer.json; smollm SmolLM2-135M-Instruct's tokenizer.json.
RULES = {
    'gpt-2': Rules(GPT2_WORDS),
    'llama-bpe': Rules(CL100K_WORDS % '{1,3}', ignore_merges=True, add_bos=True),
    'qwen2': Rules(CL100K_WORDS % '', normalizer='NFC'),
    'qwen35': Rules(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        normalizer='NFC',
    ),
    'smollm': Rules(GPT2_WORDS, each_digit=True),
}
# The two steps of smollm as one pattern: where digits are apart, white space before one is at the end of its piece.
SMOLLM_WORDS = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def gguf_metadata(path):
    """The key-value pairs of a GGUF file; strings are bytes."""
    data, at = open(path, 'rb').read(), 24
    scalar = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}

    def take(form):
        nonlocal at
        values = struct.unpack_from('<' + form, data, at)
        at += struct.calcsize('<' + form)
        return values

    def string():
        nonlocal at
        (n,) = take('Q')
        at += n
        return data[at - n : at]

    def value(kind):
        if kind == 8:
            return string()
        if kind != 9:
            return take(scalar[kind])[0]
        kind, n = take('IQ')
        return list(take('%d%s' % (n, scalar[kind]))) if kind in scalar else [value(kind) for _ in range(n)]

    (n_pairs,) = struct.unpack_from('<Q', data, 16)
    pairs = {}
    for _ in range(n_pairs):
        key = string().decode()
        pairs[key] = value(take('I')[0])
    return pairs


def byte_alphabet():
    """GPT-2's: {character: byte}."""
    same = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in same]
    return {chr(b): b for b in same} | {chr(256 + i): b for i, b in enumerate(rest)}


class Released:
    """hf: tokenizers.Tokenizer; tiktoken, sentencepiece: or None; piece[id]: the token's bytes; special: the ids of
    control and unknown tokens, marked: those of user-defined ones; bos: put in front, or None; lacking: bytes that no
    token of a byte-level vocabulary stands for."""

    def __init__(self, path):
        g = {k.removeprefix('tokenizer.ggml.'): v for k, v in gguf_metadata(path).items()}
        self.model = g['model'].decode()
        self.tokens = [t.decode() for t in g['tokens']]
        self.types = g['token_type']
        self.scores = g.get('scores')
        self.merges = [m.decode() for m in g.get('merges', [])]
        self.special = {i for i, t in enumerate(self.types) if t in (CONTROL, UNKNOWN)}
        self.marked = {i for i, t in enumerate(self.types) if t == USER_DEFINED}
        if self.model == 'gemma4':  # special in the release; files say user-defined so that chat programs see it
            self.special.add(self.tokens.index('<|tool_response>'))
            self.marked -= self.special
        self.tiktoken = self.sentencepiece = self.words = None
        self.prefix_space = False
        add_bos = g.get('add_bos_token', False)
        if self.model == 'gpt2':
            self.pre = g['pre'].decode()
            add_bos = g.get('add_bos_token', RULES[self.pre].add_bos)
            self._byte_level(RULES[self.pre])
        elif self.model == 'llama':
            self.prefix_space = g.get('add_space_prefix', True)
            self._scored()
        else:
            self._raw_bpe()
        self.bos = g['bos_token_id'] if add_bos else None
        self._finish()

    def _piece(self, i):
        t = self.tokens[i]
        if i in self.special or i in self.marked:
            return t.encode()
        if self.model == 'gpt2':
            return bytes(self.alphabet[c] for c in t)
        return bytes([int(t[3:5], 16)]) if self.types[i] == BYTE else t.replace('▁', ' ').encode()

    def _vocab(self):
        """The model's own tokens: added ones at the end of the ids are no part of it."""
        end = len(self.tokens)
        while end - 1 in self.special or end - 1 in self.marked:
            end -= 1
        return {t: i for i, t in enumerate(self.tokens[:end])}

    def _byte_level(self, rules):
        self.alphabet = byte_alphabet()
        self.hf = tokenizers.Tokenizer(
            models.BPE(self._vocab(), [tuple(m.split(' ')) for m in self.merges], ignore_merges=rules.ignore_merges)
        )
        if rules.normalizer:
            self.hf.normalizer = getattr(normalizers, rules.normalizer)()
        if rules.each_digit:
            self.words = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Digits(individual_digits=True),
                    pre_tokenizers.Split(tokenizers.Regex(rules.words), 'isolated'),
                ]
            )
            steps = [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        else:
            self.words = pre_tokenizers.Split(tokenizers.Regex(rules.words), 'isolated')
            steps = [self.words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        self.hf.pre_tokenizer = pre_tokenizers.Sequence(steps)
        self.hf.decoder = decoders.ByteLevel()
        ranks = {self._piece(i): i for i in range(len(self.tokens)) if i not in self.special and i not in self.marked}
        self.tiktoken = tiktoken.Encoding(
            self.pre,
            pat_str=SMOLLM_WORDS if rules.each_digit else rules.words,
            mergeable_ranks=ranks,
            special_tokens={self.tokens[i]: i for i in self.special | self.marked},
        )

    def _scored(self):
        """Llama 2: sentencepiece's BPE. Its merges are all the ways to cut a token in two, the best scores first, as
        transformers' converter wrote them into tokenizer.json."""
        vocab = self._vocab()
        merges = []
        for token, i in vocab.items():
            cuts = ((token[:k], token[k:]) for k in range(1, len(token)))
            merges += sorted(
                ((-self.scores[i], vocab[a], vocab[b], a, b) for a, b in cuts if a in vocab and b in vocab),
                key=lambda m: m[:3],
            )
        merges.sort(key=lambda m: m[0])
        self.hf = tokenizers.Tokenizer(
            models.BPE(vocab, [m[3:] for m in merges], unk_token='<unk>', fuse_unk=True, byte_fallback=True)
        )
        self.hf.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
        self.hf.decoder = decoders.Sequence(
            [decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(' ', 1, 0)]
        )
        self.sentencepiece = sentencepiece.SentencePieceProcessor(model_proto=self._sentencepiece_model())

    def _sentencepiece_model(self):
        """The protocol buffer: 1 pieces {1 text, 2 score, 3 type}, 2 trainer {3 model_type BPE, 35 byte_fallback},
        3 normalizer {1 name, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces}."""

        def number(n):
            out = b''
            while n > 0x7F:
                out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
            return out + bytes([n])

        def part(field, body):
            return number(field << 3 | 2) + number(len(body)) + body

        def integer(field, n):
            return number(field << 3) + number(n)

        pieces = b''.join(
            part(1, part(1, t.encode()) + b'\x15' + struct.pack('<f', s) + integer(3, k))
            for t, s, k in zip(self.tokens, self.scores, self.types)
        )
        return (
            pieces
            + part(2, integer(3, 2) + integer(35, 1))
            + part(3, part(1, b'identity') + integer(3, 1) + integer(4, 0) + integer(5, 1))
        )

    def _raw_bpe(self):
        """Gemma: ranked merges over the text itself, spaces as U+2581."""
        self.hf = tokenizers.Tokenizer(
            models.BPE(
                self._vocab(),
                [tuple(m.split(' ')) for m in self.merges],
                unk_token='<unk>',
                fuse_unk=True,
                byte_fallback=True,
            )
        )
        self.hf.normalizer = normalizers.Replace(' ', '▁')
        self.hf.pre_tokenizer = pre_tokenizers.Split(' ', 'merged_with_previous')
        self.hf.decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse()])

    def _finish(self):
        added = [
            tokenizers.AddedToken(self.tokens[i], special=i in self.special, normalized=False)
            for i in sorted(self.special | self.marked)
        ]
        self.hf.add_tokens(added)
        for i in self.special | self.marked:
            assert self.hf.token_to_id(self.tokens[i]) == i, self.tokens[i]
        if self.bos is not None:
            bos = self.tokens[self.bos]
            self.hf.post_processor = processors.TemplateProcessing(
                single=bos + ' $A', special_tokens=[(bos, self.bos)]
            )
        self.piece = [self._piece(i) for i in range(len(self.tokens))]
        self.lacking = set(range(256)) - {p[0] for p in self.piece if len(p) == 1} if self.model == 'gpt2' else set()
