'use strict';
// code.js: code blocks: their language, a copy button, and colours that keep up while the text still grows.

const CODE_WORDS = {
  c: `auto bool break case catch char class const constexpr continue default defer delete do double else enum export
    extends extern false final finally float fn for from func function go goto if impl implements import in inline
    instanceof int interface let long loop match mod move mut namespace new nil null nullptr of operator override
    package private protected public pub readonly ref return self short signed sizeof static struct super switch
    template this throw true try type typedef typename typeof undefined union unsafe unsigned use using val var
    virtual void volatile where while with yield async await abstract map string chan select range trait dyn`,
  hash: `and as assert async await begin break case class continue def del do done elif else elsif end esac except
    export False false fi finally for from function global if import in is lambda local match module None nil not
    null or pass raise require rescue return self set shift source then True true try unless until when while with
    yield echo`,
  dash: `add all alter and as asc between by case create cross database default delete desc distinct do drop else elseif
    end exists false for foreign from full function group having if in index inner insert into is join key left like
    limit local nil not null on or order outer primary references repeat return right select set table then true
    union unique until update values view when where while with`,
};
const CODE_FAMILY = {
  c: 'c cpp c++ cc h hpp cs csharp java js javascript jsx ts typescript tsx mjs json json5 jsonc go rust rs swift ' +
    'kotlin kt php scala dart zig glsl hlsl cuda cu metal opencl css scss proto objc v solidity',
  hash: 'py python sh bash zsh shell console fish rb ruby yaml yml toml ini conf make makefile cmake dockerfile ' +
    'perl pl r julia jl elixir ex nix gbnf nginx',
  dash: 'sql mysql postgresql sqlite lua haskell hs ada vhdl',
};
// Comment, string, number, word. Unclosed comments and long strings run to the end: the closing mark may still come.
const codeToken = (comment, string) =>
  new RegExp(`(${comment.source})|(${string.source})|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`, 'g');
const CODE_TOKEN = {
  c: codeToken(/\/\/.*|\/\*[^]*?(?:\*\/|$)/, /"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'|`(?:\\[^]|[^`\\])*`?/),
  hash: codeToken(/#.*/, /"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'/),
  dash: codeToken(/--.*|\/\*[^]*?(?:\*\/|$)/, /'(?:''|[^'\n])*'|"[^"\n]*"?/),
  diff: /^(-.*)|^(\+.*)|^(@@.*)|^((?:diff|index) .*)/gm,
};
const CODE_CLASS = ['', 'tc', 'ts', 'tn', 'tk'];

const codeWords = {}, codeFamily = { diff: 'diff', patch: 'diff' };
for (const f in CODE_WORDS) codeWords[f] = new Set(CODE_WORDS[f].split(/\s+/));
for (const f in CODE_FAMILY) for (const lang of CODE_FAMILY[f].split(' ')) codeFamily[lang] = f;

class CodeBlock {
  constructor(lang) {
    this.family = Object.hasOwn(codeFamily, lang.toLowerCase()) ? codeFamily[lang.toLowerCase()] : '';
    this.text = '';
    this.fixed = 0;      // characters whose colours are final
    this.loose = [];     // nodes after them
    this.code = el('code');
    this.node = el('div', { class: 'code' },
      el('div', { class: 'bar' }, el('span', null, lang || 'text'), copyButton(() => this.text, 'Copy code')),
      el('pre', { tabindex: '0', 'aria-label': lang ? lang + ' code' : 'code' }, this.code));
  }

  update(text) {
    if (text.slice(0, this.text.length) !== this.text) {   // faster than startsWith
      this.code.replaceChildren();
      this.loose = [];
      this.fixed = 0;
    }
    this.text = text;
    for (const n of this.loose) n.remove();
    this.loose = [];
    // A line that is complete stays as it is, unless a comment or string goes on over its end.
    const settled = text.lastIndexOf('\n') + 1;
    if (this.family) this.paint(settled);
    else if (this.fixed < text.length) this.put(this.fixed, text.length, '', settled);
  }

  paint(settled) {
    const token = CODE_TOKEN[this.family];
    let at = this.fixed;
    token.lastIndex = at;
    for (let m; (m = token.exec(this.text)); ) {
      const kind = m.findIndex((g, i) => i && g !== undefined);
      if (kind === 4 && this.family !== 'diff') {
        const word = this.family === 'dash' ? m[0].toLowerCase() : m[0];
        if (!codeWords[this.family].has(word)) continue;
      }
      if (m.index > at) this.put(at, m.index, '', settled);
      this.put(m.index, token.lastIndex, CODE_CLASS[kind], settled);
      at = token.lastIndex;
    }
    if (at < this.text.length) this.put(at, this.text.length, '', settled);
  }

  // Plain text is cut at the end of the last complete line; a coloured piece is final only when it ends before that.
  put(from, to, cls, settled) {
    if (!cls && from < settled && to > settled) {
      this.put(from, settled, '', settled);
      from = settled;
    }
    const s = this.text.slice(from, to);
    const node = cls ? el('span', { class: cls }, s) : document.createTextNode(s);
    this.code.append(node);
    if (!this.loose.length && (cls ? to < settled : to <= settled)) this.fixed = to;
    else this.loose.push(node);
  }
}
