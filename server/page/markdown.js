'use strict';
// markdown.js: Markdown to DOM nodes, for text that still grows.
//
// Blocks are read line by line into a tree. Those that can no longer change are forgotten at once; of the open rest
// only what differs from the last time is built again, so that a long answer costs about as much as its length.

const MARKDOWN_NEST = 12;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const STARTS = /^[ \t]*[-+*_>#`~\d]/;   // no other line begins a block but a table
const TASK = /^\[([ xX])\][ \t]+/;

const isBlank = line => !/\S/.test(line);

// Columns of white space at the start; a tab goes to the next multiple of four.
function indentOf(line) {
  let n = 0;
  for (let i = 0; i < line.length; i++) {
    if (line[i] === ' ') n++;
    else if (line[i] === '\t') n += 4 - n % 4;
    else break;
  }
  return n;
}

function dedent(line, columns) {
  let n = 0, i = 0;
  for (; i < line.length && n < columns; i++) {
    if (line[i] === ' ') n++;
    else if (line[i] === '\t') n += 4 - n % 4;
    else break;
  }
  return ' '.repeat(Math.max(0, n - columns)) + line.slice(i);
}

function itemMark(line) {
  const m = ITEM.exec(line);
  if (!m || RULE.test(line)) return null;
  const indent = indentOf(line), space = m[3].length > 4 ? 1 : m[3].length || 1;
  const digits = m[2].length > 1;
  return { indent, kind: digits ? m[2][m[2].length - 1] : m[2], start: digits ? parseInt(m[2], 10) : null,
    width: indent + m[2].length + space, rest: line.slice(m[1].length + m[2].length + (m[3] ? space : 0)),
    empty: m[0].length === line.length };
}

const isDelimiterRow = line => line.includes('-') && line.includes('|') &&
  splitRow(line).every(c => /^:?-+:?$/.test(c));

function splitRow(line) {
  let s = line.trim();
  if (s.startsWith('|')) s = s.slice(1);
  if (s.endsWith('|') && !s.endsWith('\\|')) s = s.slice(0, -1);
  return s.split(/(?<!\\)\|/).map(c => c.trim().replaceAll('\\|', '|'));
}

const isTable = (lines, i) => i + 1 < lines.length && lines[i].includes('|') && isDelimiterRow(lines[i + 1]);

// Does line i end the paragraph before it?
function interrupts(lines, i, depth) {
  const line = lines[i];
  if (isTable(lines, i)) return true;
  if (!STARTS.test(line)) return false;
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) return true;
  if (depth >= MARKDOWN_NEST) return false;
  if (QUOTE.test(line)) return true;
  const m = itemMark(line);
  return m !== null && m.indent < 4 && !m.empty && (m.start === null || m.start === 1);
}

// Each reader takes the block at line i, whose `end` is the line after it, or returns null.

function readFence(lines, i) {
  const m = FENCE.exec(lines[i]);
  if (!m) return null;
  const columns = indentOf(lines[i]), body = [];
  let j = i + 1, open = true;
  for (; j < lines.length && open; j++) {
    const t = lines[j].trim();
    if (t.length >= m[1].length && t === m[1][0].repeat(t.length)) open = false;
    else body.push(columns ? dedent(lines[j], columns) : lines[j]);
  }
  // The beginning of a closing fence is not shown as code.
  const last = body.length ? body[body.length - 1].trim() : '';
  if (open && last && m[1].startsWith(last)) body[body.length - 1] = '';
  const text = body.join('\n');
  return { t: 'code', lang: m[2].trim().split(/[\s{,:]/)[0].slice(0, 24), text, end: j };
}

function readHeading(lines, i) {
  const m = HEADING.exec(lines[i]);
  if (!m) return null;
  let text = (m[2] ?? '').trim(), n = text.length;
  while (n && text[n - 1] === '#') n--;
  if (n < text.length && (n === 0 || /\s/.test(text[n - 1]))) text = text.slice(0, n).trimEnd();
  return { t: 'heading', level: m[1].length, text, end: i + 1 };
}

function readRule(lines, i) {
  return RULE.test(lines[i]) ? { t: 'rule', end: i + 1 } : null;
}

function readQuote(lines, i, depth) {
  if (depth >= MARKDOWN_NEST || !QUOTE.test(lines[i])) return null;
  const body = [];
  let j = i;
  for (; j < lines.length && QUOTE.test(lines[j]); j++)
    body.push(lines[j].slice(lines[j].indexOf('>') + 1).replace(/^ /, ''));
  return { t: 'quote', kids: parseBlocks(body, depth + 1), end: j };
}

// The item's lines are those indented by two or more against its mark (models are careless with "1."), and lines that
// go on with its paragraph.
function readItem(lines, i, m, depth) {
  const body = [m.rest];
  let j = i + 1, gap = 0;
  for (; j < lines.length; j++) {
    if (isBlank(lines[j])) {
      gap++;
      body.push('');
      continue;
    }
    const columns = indentOf(lines[j]);
    if (columns >= m.indent + 2) body.push(dedent(lines[j], Math.min(columns, m.width)));
    else if (!gap && !itemMark(lines[j]) && !interrupts(lines, j, depth)) body.push(lines[j].trimStart());
    else break;
    gap = 0;
  }
  body.length -= gap;
  const task = TASK.exec(body[0]);
  if (task) body[0] = body[0].slice(task[0].length);
  const kids = parseBlocks(body, depth + 1);
  const spaced = kids.some((k, n) => n && k.t === 'text' && kids[n - 1].t === 'text');
  return { t: 'item', task: task ? task[1] !== ' ' : null, kids, raw: body.join('\n'), end: j - gap, next: j, gap,
    spaced };
}

function readList(lines, i, depth) {
  const first = itemMark(lines[i]);
  if (!first || first.indent > 3 || depth >= MARKDOWN_NEST) return null;
  const list = { t: 'list', start: first.start, kids: [], loose: false, end: i };
  let gap = 0;
  for (let m = first, j = i; m && m.kind === first.kind;) {
    const item = readItem(lines, j, m, depth);
    item.line = j - i;
    list.kids.push(item);
    if (gap || item.spaced) list.loose = true;
    list.end = item.end;
    gap = item.gap;
    j = item.next;
    m = j < lines.length ? itemMark(lines[j]) : null;
  }
  return list;
}

function readTable(lines, i, depth) {
  if (!isTable(lines, i)) return null;
  const align = splitRow(lines[i + 1]).map(c =>
    c.endsWith(':') ? c.startsWith(':') ? 'center' : 'right' : null);
  const rows = [];
  let j = i + 2;
  for (; j < lines.length && lines[j].includes('|') && !interrupts(lines, j, depth); j++) rows.push(lines[j]);
  return { t: 'table', head: splitRow(lines[i]), align, rows, end: j };
}

function readIndented(lines, i) {
  if (indentOf(lines[i]) < 4) return null;
  let j = i, end = i;
  for (; j < lines.length && (isBlank(lines[j]) || indentOf(lines[j]) >= 4); j++) if (!isBlank(lines[j])) end = j + 1;
  return { t: 'code', lang: '', text: lines.slice(i, end).map(l => dedent(l, 4)).join('\n'), end };
}

function readText(lines, i, depth) {
  let j = i + 1;
  while (j < lines.length && !isBlank(lines[j]) && !interrupts(lines, j, depth)) j++;
  return { t: 'text', text: lines.slice(i, j).map(l => l.trim()).join('\n'), end: j };
}

function readMarked(lines, i, depth) {
  return readFence(lines, i) ?? readHeading(lines, i) ?? readRule(lines, i) ?? readQuote(lines, i, depth) ??
    readList(lines, i, depth);
}

function parseBlocks(lines, depth = 0) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      i++;
      continue;
    }
    const b = (STARTS.test(lines[i]) ? readMarked(lines, i, depth) : null) ??
      readTable(lines, i, depth) ?? readIndented(lines, i) ?? readText(lines, i, depth);
    b.line = i;
    b.raw = lines.slice(i, b.end).join('\n');
    blocks.push(b);
    i = b.end;
  }
  return blocks;
}

// ---- nodes ----

function inlineElement(tag, text, live, props) {
  const e = el(tag, props);
  appendInline(e, text, live);
  return e;
}

// Classes, not style attributes, which content security policies forbid.
function rowNode(b, tag, cells, live) {
  return el('tr', null, ...b.head.map((_, k) => inlineElement(tag, cells[k] ?? '', live, { class: b.align[k] })));
}

function tableNode(b) {
  b.body = el('tbody');
  syncRows(b, []);
  return el('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' },
    el('table', null, el('thead', null, rowNode(b, 'th', b.head, false)), b.body));
}

// Rows that were complete before are kept.
function syncRows(b, old) {
  b.rowNodes = old.slice(0, -1);
  for (const n of old.slice(-1)) n.remove();
  for (let n = b.rowNodes.length; n < b.rows.length; n++) {
    b.rowNodes.push(rowNode(b, 'td', splitRow(b.rows[n]), b.live && n === b.rows.length - 1));
    b.body.append(b.rowNodes[n]);
  }
}

function buildBlock(b) {
  switch (b.t) {
  case 'code':
    b.view = new CodeBlock(b.lang);
    b.view.update(b.text);
    return b.view.node;
  case 'heading': return inlineElement('h' + Math.min(6, b.level + 1), b.text, b.live);
  case 'rule': return el('hr');
  case 'table': return tableNode(b);
  case 'text': return inlineElement('p', b.text, b.live);
  }
  let e;
  if (b.t === 'quote') e = el('blockquote');
  else if (b.t === 'item') e = el('li', { class: b.task === null ? null : 'task' });
  else if (b.start === null) e = el('ul', { class: b.loose ? 'loose' : '' });
  else e = el('ol', { class: b.loose ? 'loose' : '', start: b.start === 1 ? null : String(b.start) });
  if (b.t === 'item' && b.task !== null)
    e.append(el('input', { type: 'checkbox', disabled: true, checked: b.task,
      'aria-label': b.task ? 'done' : 'to do' }));
  syncBlocks(e, [], b.kids, b.live);
  return e;
}

// Takes over what stands for the old block if it can stand for the new one.
function reuseBlock(old, b) {
  if (!old || old.t !== b.t) return false;
  if (old.cut) {
    b.cut = true;
    b.loose ||= old.loose;
  }
  if (old.raw === b.raw && old.live === b.live && old.loose === b.loose) {
    Object.assign(b, { node: old.node, view: old.view, kids: old.kids, body: old.body, rowNodes: old.rowNodes });
    return true;
  }
  if (b.t === 'code' && old.lang === b.lang) {
    b.view = old.view;
    b.view.update(b.text);
  } else if (b.t === 'table' && b.rows.length >= old.rows.length && b.raw.slice(0, old.raw.length) === old.raw) {
    b.body = old.body;
    syncRows(b, old.rowNodes);
  } else if (b.kids && old.start === b.start && old.task === b.task) {
    if (b.t === 'list') old.node.setAttribute('class', b.loose ? 'loose' : '');
    syncBlocks(old.node, old.kids, b.kids, b.live);
  } else {
    return false;
  }
  b.node = old.node;
  return true;
}

// The last nodes of parent are those of `old`; afterwards they are those of `blocks`.
function syncBlocks(parent, old, blocks, live) {
  blocks.forEach((b, i) => {
    b.live = live && i === blocks.length - 1;
    if (reuseBlock(old[i], b)) return;
    b.node = buildBlock(b);
    if (old[i]) old[i].node.replaceWith(b.node);
    else parent.append(b.node);
  });
  for (const o of old.slice(blocks.length)) o.node.remove();
}

class Markdown {
  constructor(root) {
    this.root = root;
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.length = 0;
    this.fixed = 0;      // characters whose blocks are final
    this.blocks = [];    // the open ones after them
  }

  // The text so far, which only grows (or use clear()); `live` while more may come.
  update(text, live) {
    text = text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
    if (text.length < this.length) this.clear();
    this.length = text.length;
    const lines = text.slice(this.fixed).split('\n');
    const blocks = parseBlocks(lines);
    syncBlocks(this.root, this.blocks, blocks, live);
    this.blocks = blocks;
    this.settle(lines);
  }

  // A block is final when the next one begins with two complete lines: a table shows in its second.
  settle(lines) {
    let k = this.blocks.length - 1;
    while (k > 0 && this.blocks[k].line + 2 >= lines.length) k--;
    if (k < 0) return;
    let line = this.blocks[k].line;
    this.blocks.splice(0, k);
    const b = this.blocks[0];
    if (b.t === 'list') line += this.settleItems(b, lines.slice(line));
    for (let i = 0; i < line; i++) this.fixed += lines[i].length + 1;
  }

  // So is an item of a list: the rest is read as a list of its own, which goes on in the same node.
  settleItems(list, lines) {
    let k = list.kids.length - 1;
    while (k > 0 && (list.kids[k].line + 2 >= lines.length || indentOf(lines[list.kids[k].line]) > 3)) k--;
    if (k <= 0) return 0;
    const line = list.kids[k].line;
    list.kids.splice(0, k);
    list.start = itemMark(lines[line]).start;
    list.raw = null;
    list.cut = true;
    for (const item of list.kids) item.line -= line;
    return line;
  }
}
