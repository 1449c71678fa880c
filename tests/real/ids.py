"""ids.py ZINC VOCABULARY.gguf...: whether zinc's token ids and texts are those of the released tokenizers.

Each vocabulary: a megabyte of mixed text in one piece with special tokens, every second of its lines without, text that NFC
would change, bytes that are no text, long runs of one thing, the text of every id and of random sequences of ids.
Prints a line for each comparison; a difference is a line that begins with MISS, and exit status 1."""

import os
import resource
import subprocess
import sys
import unicodedata

os.environ['RAYON_NUM_THREADS'] = '1'  # one core: other tests run beside this one

import ids_text
from ids_released import Released

LONG = ['a', ' ', '\n', '1', '!', 'ab', '\u0301', '\u4e2d', "'s", ' \n']


class Zinc:
    def __init__(self, program, vocabulary):
        self.program, self.vocabulary = program, vocabulary

    def _run(self, command, data, *flags):
        return subprocess.run(
            [self.program, command, '-m', self.vocabulary, *flags],
            input=data,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            check=True,
            timeout=1200,
        ).stdout

    def ids(self, data, *flags):
        return [int(i) for i in self._run('tokenize', data, *flags).split()]

    def ids_of_each(self, texts, *flags):
        out = self._run('tokenize', b''.join(t + b'\0' for t in texts), '--null', *flags)
        return [[int(i) for i in line.split()] for line in out.split(b'\n')[:-1]]

    def text(self, ids):
        return self._run('detokenize', ' '.join(map(str, ids)).encode())

    def text_of_each(self, sequences, *flags):
        """Their texts one behind the other, a NUL after each."""
        return self._run(
            'detokenize', b''.join(b' '.join(b'%d' % i for i in s) + b'\n' for s in sequences), '--null', *flags
        )


class Comparison:
    def __init__(self, path, program):
        self.name = os.path.basename(path).removesuffix('.gguf').removeprefix('ggml-vocab-')
        self.zinc, self.r = Zinc(program, path), Released(path)
        self.misses = 0

    def say(self, what, result):
        print('%-30s %-34s %s' % (self.name[:30], what, result), flush=True)

    def miss(self, what, how):
        self.misses += 1
        if self.misses <= 20:
            print('MISS: %s: %s: %s' % (self.name, what, how), flush=True)

    def same(self, what, got, want):
        """Two lists of ids."""
        if got == want:
            return self.say(what, '%d ids' % len(got))
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        near = [
            [self.r.piece[i].decode('utf8', 'backslashreplace') for i in ids[max(at - 3, 0) : at + 5]]
            for ids in (got, want)
        ]
        self.miss(
            what, '%d ids of %d, %d differ from here on: %r, expected %r' % (at, len(want), len(want) - at, *near)
        )

    def same_lists(self, what, got, want):
        if len(got) != len(want):
            return self.miss(what, '%d texts, expected %d' % (len(got), len(want)))
        differ = [i for i in range(len(got)) if got[i] != want[i]]
        for i in differ[:3]:
            self.same('%s, text %d' % (what, i), got[i], want[i])
        if not differ:
            self.say(what, '%d texts, %d ids' % (len(got), sum(map(len, got))))

    # ---- text -----------------------------------------------------------------------------------------------

    def hf(self, texts, special):
        self.r.hf.encode_special_tokens = not special
        return [e.ids for e in self.r.hf.encode_batch_fast(texts, add_special_tokens=special)]

    def rank_ids(self, text, special):
        """tiktoken's ids. User-defined tokens are found with and without special ones."""
        allowed = self.r.special | self.r.marked if special else self.r.marked
        ids = self.r.tiktoken.encode(text, allowed_special={self.r.tokens[i] for i in allowed}, disallowed_special=())
        return [self.r.bos] + ids if special and self.r.bos is not None else ids

    def texts(self, text):
        lines = text.replace('\0', '').splitlines(keepends=True)[::2]
        whole, each = self.zinc.ids(text.encode()), self.zinc.ids_of_each([t.encode() for t in lines], '--no-special')
        self.same('tokenizers, in one piece', whole, self.hf([text], True)[0])
        self.same_lists('tokenizers, in lines', each, self.hf(lines, False))
        if self.r.sentencepiece:
            self.same_lists('sentencepiece, in lines', each, self.r.sentencepiece.encode(lines))
        if not self.r.tiktoken:
            return
        if self.r.lacking:  # tiktoken aborts where a byte has no token
            text = self.with_tokens(text)
            lines = self.with_tokens(''.join(lines)).splitlines(keepends=True)
            whole, each = self.zinc.ids(text.encode()), self.zinc.ids_of_each(
                [t.encode() for t in lines], '--no-special'
            )
        self.same('tiktoken, in one piece', whole, self.rank_ids(text, True))
        self.same_lists('tiktoken, in lines', each, [self.rank_ids(t, False) for t in lines])

    def with_tokens(self, text):
        return ''.join(
            c
            for c in text
            if c < '\x80' and ord(c) not in self.r.lacking or c >= '\x80' and self.r.lacking.isdisjoint(c.encode())
        )

    def marks(self, text):
        """Marks in any order: the Qwen releases compose them (NFC), the others take them as they are."""
        lines = text.splitlines(keepends=True)
        self.same_lists(
            'tokenizers, text not composed',
            self.zinc.ids_of_each([t.encode() for t in lines], '--no-special'),
            self.hf(lines, False),
        )

    def long(self):
        """Runs of 64 KiB, whose ids are compared, and of 1 MiB of the two that make the longest words, whose seconds
        are printed: four times the bytes should take little more than four times as long."""
        texts = [s * (65536 // len(s.encode())) for s in LONG]
        self.same_lists(
            'tokenizers, long runs',
            self.zinc.ids_of_each([t.encode() for t in texts], '--no-special'),
            self.hf(texts, False),
        )
        none = self.seconds(b'')
        self.say(
            'seconds for 256 KiB, 1 MiB',
            ', '.join(
                'of %r %.2f, %.2f' % (s, self.seconds(s * (1 << 18)) - none, self.seconds(s * (1 << 20)) - none)
                for s in (b'a', b' ')
            ),
        )

    def seconds(self, data):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.zinc.ids(data, '--no-special')
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # ---- bytes that are no text -----------------------------------------------------------------------------

    def no_text(self, data):
        """Neither library takes them as they are: tokenizers takes str, tiktoken gives up its pattern at the first
        broken byte. zinc promises (model/tok.h) that such a byte cuts words as U+FFFD does and stays the byte that it
        is. So the expected words are those that tokenizers' pattern cuts when U+FFFD stands for each broken byte, and
        the expected ids those of tiktoken for the bytes of each word, or of tokenizers' merging for what lies
        between."""
        text = BrokenText(data, self.r.hf.normalizer is not None and self.r.model == 'gpt2')
        got = self.zinc.ids(data, '--no-special')
        if self.r.tiktoken:
            want = self.word_ids(text)
        else:
            want = self.run_ids(text)
        self.same('words of bytes that are no text', got, want)
        back = text.bytes()
        if self.r.model != 'gpt2':
            back = back.replace('▁'.encode(), b' ')
        back = bytes(b for b in back if b not in self.r.lacking)
        if self.zinc.text(got) == back:
            self.say('these bytes come back', '%d bytes' % len(back))
        else:
            self.miss('these bytes come back', 'other bytes')

    def word_ids(self, text):
        ids = []
        for _, (begin, end) in self.r.words.pre_tokenize_str(text.readable()):
            word = bytes(b for b in text.bytes(begin, end) if b not in self.r.lacking)
            if word:
                ids += self.r.tiktoken._encode_single_piece(word)
        return ids

    def run_ids(self, text):
        vocab = {t: i for i, t in enumerate(self.r.tokens)}
        ids = []
        for i, (broken, part) in enumerate(text.parts()):
            if broken:
                ids += [vocab['<0x%02X>' % b] for b in part]
                continue
            part = part.replace(' ', '▁')
            ids += [t.id for t in self.r.hf.model.tokenize('▁' + part if i == 0 and self.r.prefix_space else part)]
        if self.r.prefix_space and data_begins_broken(text):
            ids = [vocab['▁']] + ids
        return ids

    # ---- and back -------------------------------------------------------------------------------------------

    def shown(self, ids, special):
        """The bytes of a sequence: its tokens' one after the other, but for the space that was put in front."""
        text = b''.join(self.r.piece[i] for i in ids if special or i not in self.r.special)
        return text[1:] if self.r.prefix_space and text[:1] == b' ' else text

    def hf_text(self, ids, special):
        """What tokenizers makes of these bytes, which are no text where a token ends inside a character: U+FFFD for
        each maximal broken part, and in a run of byte tokens that is not valid as a whole for each of its bytes."""
        if self.r.model == 'gpt2':
            return self.shown(ids, special).decode('utf8', 'replace')
        out, run = [], b''
        for i in [i for i in ids if special or i not in self.r.special] + [None]:
            if i is not None and self.r.types[i] == 6:
                run += self.r.piece[i]
                continue
            try:
                out.append(run.decode())
            except UnicodeDecodeError:
                out.append('\ufffd' * len(run))
            run = b''
            out.append(self.r.piece[i].decode() if i is not None else '')
        text = ''.join(out)
        return text[1:] if self.r.prefix_space and text[:1] == ' ' else text

    def decoded(self):
        n = len(self.r.tokens)
        pick = ids_text.Choice(22)
        plain = [i for i in range(n) if i not in self.r.special]
        one = [[i] for i in range(n)]
        many = [[pick.of(plain)] + [pick.below(n) for _ in range(pick.below(40))] for _ in range(3000)]
        for what, sequences in ('each id', one), ('random sequences of ids', many):
            for special in True, False:
                got = self.zinc.text_of_each(sequences, *(['--special'] if special else []))
                want = b''.join(self.shown(s, special) + b'\0' for s in sequences)
                theirs = self.r.hf.decode_batch(sequences, skip_special_tokens=not special)
                differ = [s for s, t in zip(sequences, theirs) if self.hf_text(s, special) != t]
                label = 'text of %s%s' % (what, ', special' if special else '')
                if got != want:
                    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                    self.miss(label, '%r, expected %r' % (got[at - 20 : at + 20], want[at - 20 : at + 20]))
                elif differ:
                    self.miss(
                        label,
                        '%d of %d, the first is %r: tokenizers has %r'
                        % (
                            len(differ),
                            len(sequences),
                            differ[0],
                            self.r.hf.decode(differ[0], skip_special_tokens=not special),
                        ),
                    )
                else:
                    self.say(label, '%d texts, %d bytes' % (len(sequences), len(got) - len(sequences)))
        if self.r.tiktoken:
            wrong = [
                i
                for i in plain
                if i not in self.r.marked and self.r.tiktoken.decode_single_token_bytes(i) != self.r.piece[i]
            ]
            if wrong:
                self.miss('text of each id, tiktoken', 'other bytes for %r' % wrong[:5])


class BrokenText:
    """Bytes as characters: valid UTF-8 as it is, a broken byte b as U+DC00 + b, which NFC leaves alone, and so the
    three bytes of an encoded surrogate."""

    def __init__(self, data, compose):
        self.s = data.decode('utf8', 'surrogateescape')
        if compose:
            self.s = unicodedata.normalize('NFC', self.s)

    def readable(self):
        return ''.join('\ufffd' if '\udc80' <= c <= '\udcff' else c for c in self.s)

    def bytes(self, begin=0, end=None):
        return self.s[begin:end].encode('utf8', 'surrogateescape')

    def parts(self):
        """(broken, characters or bytes) one after the other, the longest that are all broken or all not."""
        begin = 0
        for i in range(1, len(self.s) + 1):
            broken = '\udc80' <= self.s[begin] <= '\udcff'
            if i == len(self.s) or ('\udc80' <= self.s[i] <= '\udcff') != broken:
                yield broken, self.bytes(begin, i) if broken else self.s[begin:i]
                begin = i


def data_begins_broken(text):
    return '\udc80' <= text.s[0] <= '\udcff'


def usable_in_marks(normalizer):
    """Whether tokenizers' NFC, whose tables are older, knows a character's combining class."""

    def usable(c):
        return not unicodedata.combining(c) or all(
            normalizer.normalize_str(s) == unicodedata.normalize('NFC', s)
            for s in ('a' + c + '\u0334', 'a\u0345' + c)
        )

    return usable


def main():
    from tokenizers import normalizers

    program, *vocabularies = sys.argv[1:]
    text, marks = ids_text.mixed(usable_in_marks(normalizers.NFC()))
    data = ids_text.no_text(300_000)
    misses = 0
    for path in vocabularies:
        c = Comparison(path, program)
        c.texts(text)
        c.marks(marks)
        c.no_text(data)
        c.long()
        c.decoded()
        misses += c.misses
    print('%d vocabularies, %d misses' % (len(vocabularies), misses))
    return 1 if misses else 0


sys.exit(main())
