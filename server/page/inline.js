'use strict';
// inline.js: emphasis, code, links and line breaks within a block of Markdown, in one pass over the text.
//
// Open marks stand on a stack of frames, each with the nodes that came since. A closing mark wraps its frame's nodes;
// frames above it turn out to be plain text. So every node moves a bounded number of times, however odd the text.

const INLINE_MARK = /[\\`*_~[\]!<$\n&]|https?:\/\//g;
const INLINE_NEST = 40;
const LINK_URL = /\(\s*(?:<([^<>\n]*)>|([^\s()<]*(?:\([^\s()]*\)[^\s()]*)*))/.source;
const LINK_TITLE = /(?:\s+(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s*\)/.source;
const LINK_TARGET = new RegExp(LINK_URL + LINK_TITLE, 'y');
const BARE_LINK = /https?:\/\/[^\s<>"`|，。；：、（）「」《》]+/y;
const ANGLE_LINK = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/y;
const LINE_TAG = /<br ?\/?>/iy;
const ENTITY = /&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,6}));/y;
const ENTITY_TEXT = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;

// Other schemes, and addresses relative to this page, are never links.
function safeUrl(url) {
  return /^(?:https?:\/\/[^\s/]|mailto:)\S*$/i.test(url) ? url : null;
}

class Inline {
  // live: the text still grows, so that an open ** or ` at its end is taken as if it were closed.
  constructor(text, live) {
    this.text = text;
    this.live = live;
    this.at = 0;
    this.frames = [{ mark: '', ch: '', n: 0, at: 0, kids: [] }];
    this.open = { '*': [], '_': [], '[': [] };
    this.strike = [];
    this.missing = new Set();   // closing marks that do not come any more
  }

  nodes() {
    const { text } = this;
    while (this.at < text.length) {
      INLINE_MARK.lastIndex = this.at;
      const m = INLINE_MARK.exec(text);
      const next = m ? m.index : text.length;
      if (next > this.at) this.put(text.slice(this.at, next));
      if (!m) break;
      this.at = next;
      this.mark(m[0]);
    }
    if (this.live) this.closeLive();
    this.fold(this.frames[0]);
    return this.frames[0].kids;
  }

  put(x) {
    const kids = this.frames[this.frames.length - 1].kids, last = kids.length - 1;
    if (typeof x === 'string' && typeof kids[last] === 'string') kids[last] += x;
    else kids.push(x);
  }

  // The next n characters are text.
  plain(n) {
    this.put(this.text.slice(this.at, this.at + n));
    this.at += n;
  }

  mark(m) {
    switch (m) {
    case '\\': return this.backslash();
    case '`': return this.codeSpan();
    case '*': case '_': return this.emphasis(m);
    case '~': return this.strikethrough();
    case '[': return this.bracket('[');
    case '!': return this.text[this.at + 1] === '[' ? this.bracket('![') : this.plain(1);
    case ']': return this.link();
    case '<': return this.angle();
    case '$': return this.dollar();
    case '&': return this.entity();
    case '\n': return this.lineBreak(1);
    default: return this.bareLink();
    }
  }

  match(re) {
    re.lastIndex = this.at;
    return re.exec(this.text);
  }

  // The position of `mark` at or after `from`, or -1. What was missed once is not looked for again.
  find(mark, from) {
    if (this.missing.has(mark)) return -1;
    const i = this.text.indexOf(mark, from);
    if (i < 0) this.missing.add(mark);
    return i;
  }

  lineBreak(n) {
    this.at += n;
    this.put(el('br'));
  }

  // Formulas stay as they are, so that nothing within is taken for emphasis.
  raw(opening, closing) {
    const end = this.find(closing, this.at + opening);
    if (end < 0) return false;
    this.plain(end + closing.length - this.at);
    return true;
  }

  backslash() {
    const next = this.text[this.at + 1];
    if (next === '(' && this.raw(2, '\\)')) return;
    if (next === '[' && this.raw(2, '\\]')) return;
    if (next === '\n') return this.lineBreak(2);
    if (next !== undefined && PUNCTUATION.test(next)) this.at++;
    this.plain(1);
  }

  dollar() {
    if (this.text[this.at + 1] === '$' && this.raw(2, '$$')) return;
    const end = this.find('$', this.at + 1);
    const body = end > 0 && end - this.at < 300 ? this.text.slice(this.at + 1, end) : '';
    const formula = /^[^\s\n][^\n]*$/.test(body) && /[\\^_]/.test(body) && !/\s/.test(body[body.length - 1]);
    this.plain(formula ? end + 1 - this.at : 1);
  }

  entity() {
    const m = this.match(ENTITY);
    if (!m) return this.plain(1);
    const code = Number(m[2]), valid = code > 31 && (code < 0xd800 || code > 0xdfff);
    this.put(m[1] ? ENTITY_TEXT[m[1]] : valid ? String.fromCodePoint(code) : m[0]);
    this.at += m[0].length;
  }

  // How often the character at `this.at` comes in a row.
  run() {
    const { text, at } = this;
    let n = 1;
    while (text[at + n] === text[at]) n++;
    return n;
  }

  codeSpan() {
    const n = this.run(), from = this.at + n, fence = '`'.repeat(n);
    let end = this.find(fence, from);
    while (end >= 0) {
      let stop = end + n;
      while (this.text[stop] === '`') stop++;
      if (stop - end === n) break;
      end = this.text.indexOf(fence, stop);
      if (end < 0) this.missing.add(fence);
    }
    if (end < 0 && !(this.live && n < 3 && from < this.text.length)) return this.plain(n);
    let code = this.text.slice(from, end < 0 ? this.text.length : end).replace(/\n/g, ' ');
    if (/^ .*[^ ].* $|^ [^ ] $/.test(code)) code = code.slice(1, -1);
    this.put(el('code', null, code));
    this.at = end < 0 ? this.text.length : end + n;
  }

  emphasis(ch) {
    const { text } = this, n = this.run();
    const before = text[this.at - 1] ?? ' ', after = text[this.at + n] ?? ' ';
    let opens = !/\s/.test(after), closes = !/\s/.test(before);
    if (ch === '_') {
      if (WORD.test(before)) opens = false;
      if (WORD.test(after)) closes = false;
    } else if (n === 1 && /\d/.test(before) && /\d/.test(after)) {
      opens = closes = false;   // a product
    }
    const rest = closes ? this.close(ch, n) : n;
    if (rest && opens) this.push(ch.repeat(rest), ch, rest, this.open[ch]);
    else if (rest) this.put(ch.repeat(rest));
    this.at += n;
  }

  strikethrough() {
    const n = this.run();
    if (n === 2 && this.strike.length) {
      const f = this.strike[this.strike.length - 1];
      this.fold(f);
      this.wrap('del', f, this.strike);
    } else if (n === 2 && !/\s/.test(this.text[this.at + 2] ?? ' ')) {
      this.push('~~', '~', 2, this.strike);
    } else {
      this.put('~'.repeat(n));
    }
    this.at += n;
  }

  push(mark, ch, n, list) {
    if (this.frames.length > INLINE_NEST) return this.put(mark);
    const f = { mark, ch, n, at: this.frames.length, kids: [] };
    this.frames.push(f);
    list.push(f);
  }

  // The frames above f were never closed: their marks are text in f.
  fold(f) {
    const above = this.frames.splice(f.at + 1);
    for (const list of [this.open['*'], this.open['_'], this.open['['], this.strike])
      while (list.length && list[list.length - 1].at > f.at) list.pop();
    for (const g of above) {
      this.put(g.ch === '*' || g.ch === '_' ? g.ch.repeat(g.n) : g.mark);
      for (const k of g.kids) this.put(k);
    }
  }

  // The top frame becomes an element in the frame below.
  wrap(tag, f, list, props) {
    const e = el(tag, props);
    for (const k of f.kids) e.append(k);
    this.frames.pop();
    if (list[list.length - 1] === f) list.pop();
    this.put(e);
  }

  // Closes up to n open marks of this kind; returns how many are left over.
  close(ch, n) {
    const list = this.open[ch];
    while (n > 0 && list.length) {
      const f = list[list.length - 1];
      this.fold(f);
      const use = n >= 2 && f.n >= 2 ? 2 : 1;
      n -= use;
      this.wrap(use === 2 ? 'strong' : 'em', f, list);
      if (f.n === use) continue;
      const kid = this.frames[this.frames.length - 1].kids.pop();
      f.n -= use;
      f.kids = [kid];
      this.frames.push(f);
      list.push(f);
    }
    return n;
  }

  closeLive() {
    for (let list = this.open['*']; list.length;) {
      const f = list[list.length - 1];
      if (f.n !== 2 || !(f.kids.length || f.at + 1 < this.frames.length)) return;
      this.fold(f);
      this.wrap('strong', f, list);
    }
  }

  bracket(mark) {
    this.push(mark, '[', 1, this.open['[']);
    this.at += mark.length;
  }

  link() {
    const list = this.open['['], f = list.pop();
    if (!f) return this.plain(1);
    this.at++;
    const m = this.match(LINK_TARGET);
    const url = m && safeUrl(m[1] ?? m[2]);
    if (!url) {
      if (f === this.frames[this.frames.length - 1]) this.fold(this.frames[f.at - 1]);
      this.put(']');
      return;
    }
    this.fold(f);
    this.at += m[0].length;
    if (!f.kids.length) f.kids.push(url);
    this.wrap('a', f, list, this.anchor(url));
    list.length = 0;   // no link within a link
  }

  anchor(url) {
    return { href: url, rel: 'noopener noreferrer', target: '_blank' };
  }

  angle() {
    const br = this.match(LINE_TAG);
    if (br) return this.lineBreak(br[0].length);
    const m = this.match(ANGLE_LINK);
    if (!m || !safeUrl(m[1])) return this.plain(1);
    this.at += m[0].length;
    this.put(el('a', this.anchor(m[1]), m[1]));
  }

  bareLink() {
    const m = this.match(BARE_LINK);
    let url = m ? m[0] : '', depth = 0;
    for (const c of url) depth += c === '(' ? 1 : c === ')' ? -1 : 0;
    for (;;) {
      const last = url[url.length - 1];
      if (last === ')' && depth < 0) depth++;
      else if (last === undefined || !'.,;:!?*_~\'"]}'.includes(last)) break;
      url = url.slice(0, -1);
    }
    if (!safeUrl(url) || this.open['['].length) return this.plain(m ? url.length || 1 : 1);
    this.at += url.length;
    this.put(el('a', this.anchor(url), url));
  }
}

function appendInline(parent, text, live) {
  for (const n of new Inline(text, live).nodes()) parent.append(n);
}
