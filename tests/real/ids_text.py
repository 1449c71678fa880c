"""tests/real/ids_text.py: a megabyte of mixed text for comparing tokenizers, and bytes that are no text.

The same bytes on every machine: the characters are those of Unicode 15.1, the version that zinc pins its classes to,
whatever Python knows, and the choices come from random.Random.random, whose sequence Python promises. tokenizers and
tiktoken are at Unicode 16: the 5,000 characters that came with it are other classes to them, so none is here."""

import os
import random
import re
import unicodedata

SPECIALS = [
    '<|endoftext|>',
    '<|im_start|>',
    '<|im_end|>',
    '<|begin_of_text|>',
    '<|eot_id|>',
    '<|reserved_special_token_7|>',
    '<s>',
    '</s>',
    '<unk>',
    '<bos>',
    '<eos>',
    '<pad>',
    '<mask>',
    '<|turn>',
    '<turn|>',
    '<|tool_call>',
    '<tool_call|>',
    '<|tool_response>',
    '<|"|>',
    '<|channel>',
    '<|image|>',
    '<repo_name>',
    '<reponame>',
    '<empty_output>',
    '[PAD151646]',
]

# Sentences of our own in the scripts that people write in; the words are shuffled.
PROSE = '''
The quick engineer didn't think that she'd need it, but they've said we're late; it's 5 o'clock and I'll go.
Der Zug fährt um 17:45 Uhr ab, größere Koffer müssen draußen bleiben. Straße, Äpfel, überall!
L'été dernier, nous étions allés où l'œuvre s'achève ; c'était « déjà vu » à Noël.
El niño pequeño comió piñas; ¿cuándo volverás, corazón? ¡Mañana mismo!
Часы показывали половину девятого, когда поезд наконец остановился у перрона. Ещё ёлка.
Η θάλασσα ήταν ήρεμη και ο ουρανός γαλανός, όπως πάντα το καλοκαίρι.
כשהגענו הביתה היה כבר חושך, והילדים ישנו. שָׁלוֹם עֲלֵיכֶם
في الصباح الباكر شربنا القهوة وتحدثنا عن السفر. الْعَرَبِيَّةُ ۱۲۳ ٤٥٦
सुबह की चाय के साथ हम क्षेत्र की कहानियाँ सुनते थे। हिन्दी में १२३ रुपये
আমরা সকালে নদীর ধারে হাঁটতে যাই, আর ক্ষণিক বৃষ্টি নামে।
காலையில் நாங்கள் கடற்கரையில் நடந்தோம்; ௧௨ மணி
అమ్మ కథలు చెబుతుంది, పిల్లలు వింటారు
ഞങ്ങൾ രാവിലെ പുഴയുടെ അരികിൽ നടന്നു
ตอนเช้าเราดื่มกาแฟแล้วเดินไปตลาดด้วยกัน ๑๒๓ น้ำใจ
ຕອນເຊົ້າພວກເຮົາໄປຕະຫຼາດ
နံနက်ခင်းတွင် ကျွန်ုပ်တို့ လမ်းလျှောက်ကြသည်။
ព្រឹកនេះយើងដើរទៅផ្សារ
བཀྲ་ཤིས་བདེ་ལེགས། ང་ཚོ་ལམ་ལ་འགྲོ་གི་ཡིན།
今天早上我们喝了咖啡，然后走到河边。三百六十五天！「你好」他说。
昨日は雨が降ったので、図書館でカタカナとひらがなを勉強しました。ﾊﾝｶｸ、ＦＵＬＬ　ＷＩＤＴＨ
아침에 우리는 강가를 걸었고 커피를 마셨다. 각각의 학생들이
Buổi sáng chúng tôi uống cà phê rồi đi bộ dọc bờ sông; người Việt thường thích phở.
დილით ყავა დავლიეთ და მდინარესთან ვისეირნეთ
Առավոտյան սուրճ խմեցինք և քայլեցինք գետի ափով։
ጠዋት ቡና ጠጥተን ወደ ወንዙ ሄድን። ፩፪፫
ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ꮳꮃꭹ
İstanbul'da ılık bir sabah, ŞIK giyinmiş çocuklar İZMİR'E gitti.
Þórður átti ærkjöt; Øyvind såg på åren. Łódź, źdźbło, ŽLUŤOUČKÝ kůň, ǅ ǈ ǋ
𝔗𝔥𝔢 𝕢𝕦𝕚𝕔𝕜 𝒷𝓇𝑜𝓌𝓃 𝟘𝟙𝟚 x² + y³ = ½ · ∑ ∫ √2 ≈ 1.414 ₁₂ Ⅻ ⅷ ① ㊿ ㎏ ﷺ ﬁ
price: $1,234.56 or €99,95 (≈£80) — 100%! #tag @user http://example.org/a/b?c=d&e=%20f#g C:\\dir\\file.txt
'''.strip().split(
    '\n'
)

CODE = '''
#include <stdio.h>
static int f(const char *s, size_t n) { return n > 0x7fULL ? s[n - 1] : -1; }
	for (int i = 0; i < 100; i++) {
		a[i] += b[i] * 3.14159e-10f; /* comment */
    def __init__(self, x: int = None) -> "Foo":
        return {k: v for k, v in self.items() if k != 'id'}
SELECT * FROM t WHERE a <= 10 AND b LIKE '%x_y%' -- note
<div class="a b" id='c'>&nbsp;&lt;p&gt;</div><br/>
if (!(a && b) || c == d) { x ??= y?.z ?? [...w]; } // TODO: don't
fn main() -> Result<(), Box<dyn Error>> { println!("{:?}", &v[..]); Ok(()) }
$ ls -la | grep -v '^d' | awk '{print $5}' >> /tmp/out.txt 2>&1
{"key": [1, 2.5e3, true, null], "text": "a\\u00e9\\n\\"q\\""}
\\begin{equation} \\sum_{i=1}^{n} x_i^2 \\end{equation}
===== ----- ***** ##### ~~~~~ ///// ::: ;;; ,,, ... !!! ??? ))) ]]] }}} >>>
'''.strip(
    '\n'
).split(
    '\n'
)

EMOJI = [
    '👨\u200d👩\u200d👧\u200d👦',
    '🏳\ufe0f\u200d🌈',
    '👩🏽\u200d💻',
    '🇩🇪',
    '🇯🇵🇫🇷',
    '1\ufe0f\u20e3',
    '❤\ufe0f',
    '❤',
    '🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f',
    '🫠',
    '👍🏿',
    '🧑\u200d🚀',
    '☺\ufe0e',
    '🙂\u200d↔\ufe0f',
    '\U0001f468\u200d',
    '\u200d',
    '\ufe0f',
]
CONTRACTIONS = [
    "'s",
    "'S",
    "'t",
    "'T",
    "'re",
    "'RE",
    "'rE",
    "'ve",
    "'Ve",
    "'m",
    "'M",
    "'ll",
    "'LL",
    "'lL",
    "'d",
    "'D",
    "'l",
    "'r",
    "'v",
    "’s",
    "’LL",
    "'ſ",
    "''s",
    "'sS",
    "' s",
    "'ﬅ",
    "'x",
    "'1",
]
INVISIBLE = [
    '\u200b',
    '\u200c',
    '\u200d',
    '\u2060',
    '\ufeff',
    '\u200e',
    '\u200f',
    '\u202a',
    '\u202e',
    '\u2066',
    '\u2069',
    '\u00ad',
    '\u034f',
    '\u180e',
    '\x00',
    '\x01',
    '\x07',
    '\x08',
    '\x0b',
    '\x0c',
    '\x1b[0m',
    '\x1c',
    '\x1f',
    '\x7f',
    '\x80',
    '\x85',
    '\x9f',
    '\ufff9',
    '\ufffd',
    '\ufffe',
    '\uffff',
    '\U0001fffe',
    '\ue000',
    '\U0010ffff',
    '\U000e0001',
    '▁',
    '▁▁',
    'Ġ',
    'Ċ',
    '<0x41>',
]
SPACES = [' ', ' ', ' ', '\n', '\n', '\t', '\r\n', '\r', '\u00a0', '\u2003', '\u3000', '\u2028', '\u0085', '\x0b']


class Choice:
    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, n):
        return int(self.random() * n)

    def of(self, things):
        return things[int(self.random() * len(things))]


def groups():
    """The group of each code point in Unicode 15.1, as zinc's table has it: 0 unassigned, 1 letters ... 7 others."""
    table = open(os.path.join(os.path.dirname(__file__), '../../model/gen/unicode_15_1.inc')).read()
    runs = [(int(first, 16), int(group)) for first, group in re.findall(r'R\((0x[0-9a-f]+),(\d)\)', table)]
    out = bytearray(0x110000)
    for (first, group), (end, _) in zip(runs, runs[1:] + [(0x110000, 0)]):
        out[first:end] = bytes([group]) * (end - first)
    return out


def assigned():
    """The code points of Unicode 15.1, one in 40 of the ideographs and syllables that make up nine tenths of them."""
    many = (0x3400, 0xA000), (0xAC00, 0xD7A4), (0x17000, 0x19000), (0x20000, 0xE0000)
    none = (0xD800, 0xF900), (0xF0000, 0x110000)  # surrogates, and what is for private use
    for c, group in enumerate(groups()):
        if not group or any(lo <= c < hi for lo, hi in none) or c % 40 and any(lo <= c < hi for lo, hi in many):
            continue
        yield c


def each_character(pick):
    """Every character beside letters, digits, spaces and itself: its class decides where words end."""
    out = []
    for c in assigned():
        s = chr(c)
        out.append(
            pick.of(['a%sb', ' %s1', '%s', '%s%s\n', '1%s ', ".%s's", 'X%s%sy', '\u00e9%s, ']).replace('%s', s)
        )
    return ''.join(out)


def prose(pick, size):
    out, n = [], 0
    while n < size:
        line = pick.of(PROSE if pick.below(3) else CODE)
        if pick.below(4) == 0:
            words = line.split(' ')
            line = ' '.join(pick.of(words) for _ in range(pick.below(30)))
        if pick.below(8) == 0:
            line = pick.of([line.upper(), line.lower(), line.title(), line + line])
        line += pick.of(['\n', '\n', '\n\n', '\r\n', ' ', '\n' + ' ' * pick.below(13)])
        out.append(line)
        n += len(line.encode())
    return ''.join(out)


def runs(pick, size):
    """Long runs of one character and of few, with and without a word behind."""
    out, n = [], 0
    while n < size:
        length = pick.of([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 40, 100, 300])
        few = pick.of(
            [
                ' ',
                '\n',
                '\t',
                '\r\n',
                '0',
                '1234567890',
                '-',
                '=',
                '.',
                '!?',
                ' \n',
                '\n ',
                '\t ',
                'a',
                'aA',
                '\u3000',
                '\u00a0 ',
                '\u0660\u0661',
                '哈',
                'é',
                '\u0301',
                '👍',
                '/',
                '//\n',
                '#',
                '))',
                "'",
                '"',
                '_',
                '▁',
                '<',
                '\u0e01',
                '½',
            ]
        )
        run = ''.join(pick.of(few) for _ in range(length))
        out.append(run + pick.of(['', '', 'x', ' x', '1', '.', '\n', "'s", 'é']))
        n += len(out[-1].encode())
    return ''.join(out)


def odd(pick, size):
    """Words between contractions, invisible characters, emoji, look-alikes of special tokens and odd white space."""
    things = [
        CONTRACTIONS,
        INVISIBLE,
        EMOJI,
        SPACES,
        SPACES,
        SPECIALS,
        ['a', 'word', 'Été', 'ЯЗЫК', '字', '12', '345', '!', '."'],
    ]
    out, n = [], 0
    while n < size:
        s = pick.of(pick.of(things))
        if s in SPECIALS and pick.below(2):
            cut = pick.below(len(s))
            s = pick.of([s[:cut], s[cut:], s[:cut] + s, s + s, s.upper(), s[:cut] + ' ' + s[cut:]])
        out.append(s)
        n += len(s.encode())
    return ''.join(out)


def marks(pick, size, usable):
    """Letters with marks in any order, most of which another order or a composed letter is equivalent to."""
    letters = [chr(c) for c, group in enumerate(groups()[:0x2000]) if group == 1]
    common = [chr(c) for c in range(0x300, 0x345)]
    some = [chr(c) for c in range(0x20000) if unicodedata.combining(chr(c)) and usable(chr(c))]
    jamo = [chr(c) for c in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3), 0xAC00, 0xAC1C)]
    out, n = [], 0
    while n < size:
        kind = pick.below(4)
        if kind == 0:
            s = ''.join(pick.of(jamo) for _ in range(1 + pick.below(6)))
        elif kind == 1:
            s = unicodedata.normalize('NFD', pick.of(PROSE))
        else:
            s = pick.of('aeiouAEIOUnsczdyXφя') if kind == 2 else pick.of(letters)
            s += ''.join(pick.of(common if pick.below(3) else some) for _ in range(pick.below(5)))
        out.append(s + pick.of(['', '', ' ', '\n']))
        n += len(out[-1].encode())
    return ''.join(out)


def mixed(usable=lambda c: True):
    """(composed, decomposed): a megabyte that NFC leaves as it is, and 100 KB that it does not; `usable` says which
    characters may stand among marks."""
    pick = Choice(20)
    parts = [each_character(pick)]
    while sum(len(p.encode()) for p in parts) < 1_000_000:
        parts += [prose(pick, 30_000), runs(pick, 10_000), odd(pick, 15_000)]
    text = unicodedata.normalize('NFC', ''.join(parts))
    return text, marks(pick, 100_000, usable)


def no_text(size):
    """Bytes in which each kind of broken UTF-8 occurs between words: cut, overlong, surrogates, too high, noise."""
    pick = Choice(21)
    out = bytearray()
    while len(out) < size:
        kind = pick.below(8)
        if kind < 2:
            out += bytes(pick.below(256) for _ in range(1 + pick.below(60)))
        elif kind == 2:
            out += pick.of(PROSE + CODE).encode()[: pick.below(200)]
        elif kind == 3:
            out += bytes(0x80 + pick.below(128) for _ in range(1 + pick.below(12)))
        elif kind == 4:
            out += pick.of(
                [
                    b'\xc0\x80',
                    b'\xe0\x80\xaf',
                    b'\xed\xa0\x80',
                    b'\xed\xbf\xbf',
                    b'\xf0\x80\x80\x80',
                    b'\xf4\x90\x80\x80',
                    b'\xf8\x88\x80\x80\x80',
                    b'\xfe\xff',
                    b'\xe2\x96',
                    b'\xf0\x9f\x91',
                    b'\xc3',
                    b'\xef\xbf\xbd',
                ]
            )
        elif kind == 5:
            out += pick.of(SPACES).encode() * (1 + pick.below(5))
        elif kind == 6:
            out += pick.of(CONTRACTIONS + EMOJI + INVISIBLE).encode()
        else:
            out += bytes(pick.of(b'aZ09 .\n\xff\xe4') for _ in range(pick.below(20)))
    return bytes(out[:size])
