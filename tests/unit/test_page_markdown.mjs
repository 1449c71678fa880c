// The chat page's Markdown, code colours and event parser, on a document that is just large enough.
import { readFileSync } from 'node:fs';
import vm from 'node:vm';

let made = 0; // elements so far

class Node {
  constructor(tag) {
    this.tag = tag;
    this.attrs = {};
    this.kids = [];
    this.parent = null;
    if (tag) made++;
  }
  append(...kids) {
    for (let k of kids) {
      if (!(k instanceof Node)) k = Object.assign(new Node(''), { text: String(k) });
      k.remove();
      k.parent = this;
      this.kids.push(k);
    }
  }
  remove() {
    if (this.parent) this.parent.kids.splice(this.parent.kids.lastIndexOf(this), 1);
    this.parent = null;
  }
  replaceWith(n) {
    this.parent.kids[this.parent.kids.lastIndexOf(this)] = n;
    n.parent = this.parent;
    this.parent = null;
  }
  replaceChildren(...kids) {
    for (const k of this.kids) k.parent = null;
    this.kids = [];
    this.append(...kids);
  }
  setAttribute(name, value) {
    this.attrs[name] = value;
  }
  addEventListener() {}
  get textContent() {
    return this.tag ? this.kids.map(k => k.textContent).join('') : this.text;
  }
  // What a browser would show; the controls of a code block are left out.
  html() {
    const escape = s => s.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
    if (!this.tag) return escape(this.text);
    if (this.attrs.class === 'bar') return `[${this.kids[0].textContent}]`;
    const hidden = ['tabindex', 'aria-label', 'role', 'rel', 'target'];
    const shown = Object.entries(this.attrs).filter(([k, v]) => !hidden.includes(k) && (k !== 'class' || v));
    const attrs = shown.map(([k, v]) => ` ${k}="${v}"`).join('');
    const inner = this.kids.map(k => k.html()).join('');
    return ['br', 'hr', 'input'].includes(this.tag) ? `<${this.tag}${attrs}>` : `<${this.tag}${attrs}>${inner}</${this.tag}>`;
  }
}

const page = vm.createContext({
  document: {
    createElement: tag => new Node(tag),
    createElementNS: (_, tag) => new Node(tag),
    createTextNode: text => Object.assign(new Node(''), { text }),
  },
  location: { host: 'localhost' }, setTimeout, clearTimeout, TextDecoder,
});
for (const f of ['dom', 'code', 'inline', 'markdown', 'api'])
  vm.runInContext(readFileSync(`server/page/${f}.js`, 'utf8'), page, { filename: `server/page/${f}.js` });
const { Markdown, EventParser, CodeBlock } = vm.runInContext('({ Markdown, EventParser, CodeBlock })', page);

let misses = 0;
function same(what, got, want) {
  if (got === want) return;
  misses++;
  let i = 0;
  while (got[i] === want[i]) i++;
  const near = s => s.slice(Math.max(0, i - 60), i + 120);
  console.log(`MISS: ${what}\n  got  ${near(got)}\n  want ${near(want)}`);
}

function render(text, live = false) {
  const root = new Node('div');
  new Markdown(root).update(text, live);
  return root.kids.map(k => k.html()).join('');
}

const cases = [
  ['plain', '<p>plain</p>'],
  ['a\nb', '<p>a<br>b</p>'],
  ['a\n\nb', '<p>a</p><p>b</p>'],
  ['a  \nb\\\nc', '<p>a<br>b<br>c</p>'],
  ['# One\n### Three ##\n#no', '<h2>One</h2><h4>Three</h4><p>#no</p>'],
  ['*a* **b** ***c*** _d_ __e__', '<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <em>d</em> <strong>e</strong></p>'],
  ['**a *b* c**', '<p><strong>a <em>b</em> c</strong></p>'],
  ['snake_case_name and 2*3*4 and 2 * 3', '<p>snake_case_name and 2*3*4 and 2 * 3</p>'],
  ['**open and *open', '<p>**open and *open</p>'],
  ['*a **b*', '<p>*a *<em>b</em></p>'],
  ['~~gone~~ ~5', '<p><del>gone</del> ~5</p>'],
  ['**強調**です', '<p><strong>強調</strong>です</p>'],
  ['`a*b*` ``c`d`` `e', '<p><code>a*b*</code> <code>c`d</code> `e</p>'],
  ['\\*a\\* \\q', '<p>*a* \\q</p>'],
  ['&amp; &lt;b&gt; &#65; &x; &', '<p>&amp; &lt;b&gt; A &amp;x; &amp;</p>'],
  ['a<br>b', '<p>a<br>b</p>'],
  ['---', '<hr>'],
  ['a\n***\nb', '<p>a</p><hr><p>b</p>'],
  ['> a\n> > b\n\nc', '<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>'],
  ['- a\n- b', '<ul><li><p>a</p></li><li><p>b</p></li></ul>'],
  ['- a\n\n- b', '<ul class="loose"><li><p>a</p></li><li><p>b</p></li></ul>'],
  ['- a\n  - b\n    - c\n- d', '<ul><li><p>a</p><ul><li><p>b</p><ul><li><p>c</p></li></ul></li></ul></li><li><p>d</p></li></ul>'],
  ['1. a\n  - b\n2. c', '<ol><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ol>'],
  ['1. a\n\t- b', '<ol><li><p>a</p><ul><li><p>b</p></li></ul></li></ol>'],
  ['3. a\n4. b', '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'],
  ['- a\nb', '<ul><li><p>a<br>b</p></li></ul>'],
  ['text\n- a', '<p>text</p><ul><li><p>a</p></li></ul>'],
  ['in the year\n1984. It was', '<p>in the year<br>1984. It was</p>'],
  ['- [x] a\n- [ ] b', '<ul><li class="task"><input type="checkbox" disabled="" checked=""><p>a</p></li>' +
    '<li class="task"><input type="checkbox" disabled=""><p>b</p></li></ul>'],
  ['1. a\n\n   ```c\n   int x;\n   ```\n2. b', '<ol><li><p>a</p><div class="code">[c]<pre><code>' +
    '<span class="tk">int</span> x;</code></pre></div></li><li><p>b</p></li></ol>'],
  ['```\na <b>\n```\nc', '<div class="code">[text]<pre><code>a &lt;b&gt;</code></pre></div><p>c</p>'],
  ['~~~x\n```\n~~~', '<div class="code">[x]<pre><code>```</code></pre></div>'],
  ['````\n```\n````', '<div class="code">[text]<pre><code>```</code></pre></div>'],
  ['```py\ndef f', '<div class="code">[py]<pre><code><span class="tk">def</span> f</code></pre></div>'],
  ['    indented\n\n      more', '<div class="code">[text]<pre><code>indented\n\n  more</code></pre></div>'],
  ['|a|b|\n|-|:-:|\n|1|`x\\|y`|', '<div class="table"><table><thead><tr><th>a</th><th class="center">b</th></tr></thead>' +
    '<tbody><tr><td>1</td><td class="center"><code>x|y</code></td></tr></tbody></table></div>'],
  ['a | b\n--: | ---\n1 | 2 | 3\n4', '<div class="table"><table><thead><tr><th class="right">a</th><th>b</th></tr></thead>' +
    '<tbody><tr><td class="right">1</td><td>2</td></tr></tbody></table></div><p>4</p>'],
  ['[a *b*](https://x.y/z_(1) "t")', '<p><a href="https://x.y/z_(1)">a <em>b</em></a></p>'],
  ['![alt](https://x.y/i.png)', '<p><a href="https://x.y/i.png">alt</a></p>'],
  ['see https://x.y/a_b_c, or (https://x.y/p).', '<p>see <a href="https://x.y/a_b_c">https://x.y/a_b_c</a>, or (<a href="https://x.y/p">https://x.y/p</a>).</p>'],
  ['<https://x.y> <mailto:a@b.c>', '<p><a href="https://x.y">https://x.y</a> <a href="mailto:a@b.c">mailto:a@b.c</a></p>'],
  ['[1] and [x', '<p>[1] and [x</p>'],
  ['$a_i^2 * b_i * c$ and $$x_1*y_1*z$$ and \\(a*b*c\\) and \\[d_1\\]', '<p>$a_i^2 * b_i * c$ and $$x_1*y_1*z$$ and \\(a*b*c\\) and \\[d_1\\]</p>'],
  ['costs $5 **now**, $6 later', '<p>costs $5 <strong>now</strong>, $6 later</p>'],
  // nothing that a model says is markup or runs
  ['<script>alert(1)</script>', '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>'],
  ['<img src=x onerror=alert(1)>', '<p>&lt;img src=x onerror=alert(1)&gt;</p>'],
  ['[a](javascript:alert(1))', '<p>[a](javascript:alert(1))</p>'],
  ['[a](JaVaScRiPt:alert(1)) [b](data:text/html,x) [c](vbscript:x)', '<p>[a](JaVaScRiPt:alert(1)) [b](data:text/html,x) [c](vbscript:x)</p>'],
  ['<javascript:alert(1)>', '<p>&lt;javascript:alert(1)&gt;</p>'],
  ['[a](/etc) [b](//x.y)', '<p>[a](/etc) [b](//x.y)</p>'],
  ['```"><img onerror=x>\na\n```', '<div class="code">["><img]<pre><code>a</code></pre></div>'],
];
for (const [text, want] of cases) same(JSON.stringify(text), render(text), want);

// While it streams, an open mark at the end is taken as closed.
same('live bold', render('a **b', true), '<p>a <strong>b</strong></p>');
same('live code', render('a `b', true), '<p>a <code>b</code></p>');
same('live fence', render('```c\nint x;\n``', true), '<div class="code">[c]<pre><code><span class="tk">int</span> x;\n</code></pre></div>');

// ---- streaming in pieces of any size ends with what one piece gives ----

let seed = 7;
const random = n => (seed = (seed * 1103515245 + 12345) % 2147483648, Math.floor(seed / 65536) % n);
const bits = ['word ', 'and ', '\n', '\n\n', '- ', '  - ', '1. ', '# ', '> ', '```', '```c\n', '`', '**', '*', '_', '[', ']', '](http://x.y)',
  '|', '|-|-|\n', 'a | b\n', '---', '    ', '\t', '$', '\\', '<br>', '~~', 'https://a.b/c ', 'int x = "s"; // c', '/* ', ' */', '"""', '漢字', '\r\n'];
for (let round = 0; round < 800; round++) {
  let text = '';
  for (let n = 5 + random(60); n; n--) text += bits[random(bits.length)];
  const root = new Node('div'), md = new Markdown(root);
  for (let at = 0; at < text.length;) {
    at = Math.min(text.length, at + 1 + random(9));
    md.update(text.slice(0, at), true);
  }
  md.update(text, false);
  // Pieces of text may lie side by side; spans and elements may not differ.
  same('in pieces: ' + JSON.stringify(text), root.kids.map(k => k.html()).join(''), render(text));
  if (misses > 5) break;
}

// ---- a long answer costs about as much as its length ----

const samples = {
  paragraphs: 'Some *words* and `code` in a paragraph that ends soon.\n\n',
  list: '- an item of a very long list with **bold** words\n',
  nested: '- one\n  - two\n    1. three\n',
  table: '| a | **b** | c |\n',
  code: 'int f(int x) { return x + 1; } // a comment\n',
  quote: '> quoted *text* goes on\n>\n',
};
for (const [name, piece] of Object.entries(samples)) {
  const head = { table: '|x|y|z|\n|-|-|-|\n', code: '```c\n' }[name] ?? '';
  const text = head + piece.repeat(Math.ceil(20000 / piece.length));
  made = 0;
  render(text);
  const once = made, root = new Node('div'), md = new Markdown(root);
  made = 0;
  for (let at = 8; at < text.length + 8; at += 8) md.update(text.slice(0, at), true);
  // Each piece builds the open leaf again: pieces per leaf times its elements, not pieces times the whole.
  if (made > 10 * once) {
    misses++;
    console.log(`MISS: ${name}: ${made} elements made for ${once}`);
  }
}

// Odd text is only text, and takes no odd time: each of these was quadratic or worse in some renderer.
const odd = ['*a ', '_a ', '[', '](', '[a](', '![', '`', '` `` ', '<', '**', '*_', '~~', '$', '\\(', '> ', '- ', ' ', '|',
  '|-', '&#', 'https://', '\t- ', '[a](b "', '*a **b _c __d '];
for (const piece of odd)
  for (const end of ['', 'x', '\n', '*', ']', ')'])
    if (!render(piece.repeat(5000) + end) && piece.trim()) misses++, console.log('MISS: nothing shown of ' + piece);

// ---- code keeps its text ----

const code = 'int a = 1; /* x\n y */ "s\\"t" \'c\'\n# py """doc\n""" `tpl ${x}` -- sql\n+ diff\n- diff\n@@ 1\n';
for (const lang of ['c', 'py', 'sql', 'diff', '', 'constructor', '__proto__'])
  for (let step = 1; step < 9; step++) {
    const view = new CodeBlock(lang);
    for (let at = 0; at < code.length;) view.update(code.slice(0, at = Math.min(code.length, at + step)));
    const whole = new CodeBlock(lang);
    whole.update(code);
    same(`code ${lang} by ${step}`, view.code.html(), whole.code.html());
    same(`text ${lang} by ${step}`, view.code.textContent, code);
  }

// ---- events, cut anywhere, also within a character ----

const stream = ': hello\r\n\r\ndata: {"a":"日本語 \u{1f642}"}\r\n\r\nevent: x\ndata:two\ndata: lines\n\ndata: [DONE]\n\ndata: never complete\n';
const bytes = new TextEncoder().encode(stream);
const want = JSON.stringify(['{"a":"日本語 \u{1f642}"}', 'two\nlines', '[DONE]']);
for (let i = 0; i <= bytes.length; i++)
  for (let j = i; j <= bytes.length; j += 1 + random(5)) {
    const d = new TextDecoder(), p = new EventParser(), got = [];
    for (const part of [bytes.slice(0, i), bytes.slice(i, j), bytes.slice(j)])
      got.push(...p.push(d.decode(part, { stream: true })));
    same(`events cut at ${i}, ${j}`, JSON.stringify(got), want);
  }

console.log(misses ? `${misses} misses` : 'ok');
process.exit(misses ? 1 : 0);
