'use strict';
// attach.js: files of text that go with a message. A message keeps them as { name, text }; a request has them as fenced
// blocks in front of what was written.

const MOST_FILE = 1 << 20, MOST_FILES = 4 << 20;   // bytes of one, and of all of a message: a request has room for 8 MiB

const attached = [];   // of the message that is being written

function fence(text) {
  const runs = text.match(/`{3,}/g) ?? [];
  return '`'.repeat(Math.max(3, ...runs.map(r => r.length + 1)));
}

function fileBlock({ name, text }) {
  const f = fence(text), kind = /\.(\w{1,12})$/.exec(name)?.[1] ?? '';
  return 'File ' + name + ':\n\n' + f + kind + '\n' + text.replace(/\n$/, '') + '\n' + f;
}

// What a message says to the model.
const wholeText = m => [...(m.files ?? []).map(fileBlock), m.content].filter(Boolean).join('\n\n');

// The text of a file; throws what is wrong with it in words.
async function textOf(file) {
  if (file.size > MOST_FILE) throw new Error('it has ' + bytes(file.size) + ', and at most ' + bytes(MOST_FILE) + ' are taken');
  if (attached.reduce((n, f) => n + f.text.length, file.size) > MOST_FILES)
    throw new Error('all files of a message may have ' + bytes(MOST_FILES));
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
  } catch (e) {
    throw new Error(e instanceof TypeError ? 'it is not text (UTF-8)' : 'it cannot be read');
  }
  if (text.includes('\0')) throw new Error('it is not text');
  return text.replaceAll('\r\n', '\n');
}

async function attach(files) {
  const before = attached.length;
  for (const file of files) {
    try {
      const name = file.name.replace(/[\x00-\x1f\x7f]/g, ' ').slice(0, 200) || 'text';
      attached.push({ name, text: await textOf(file) });
    } catch (e) {
      toast(file.name + ' was not attached: ' + e.message + '.');
    }
  }
  showAttached();
  if (attached.length > before) say(words(attached.length - before, 'file') + ' attached');
  byId('input').focus();
}

function takeAttached() {
  const files = attached.splice(0);
  showAttached();
  return files;
}

function showAttached() {
  byId('files').replaceChildren(...attached.map((f, i) => el('li', null, icon('file'), el('span', { class: 'name' }, f.name),
    el('span', { class: 'size' }, bytes(f.text.length)), tool('close', 'Remove ' + f.name, () => {
      attached.splice(i, 1);
      showAttached();
      say(f.name + ' removed');
      byId('input').focus();
    }))));
  byId('files').hidden = !attached.length;
  byId('composer').classList.toggle('filled', attached.length > 0);
  keepEnd();   // the field has grown over it
}

// Of a message that was sent: folded, with the text inside.
function fileView(f) {
  return el('details', { class: 'file' }, el('summary', null, icon('file'), el('span', { class: 'name' }, f.name),
    el('span', { class: 'size' }, bytes(f.text.length))), el('pre', { tabindex: '0' }, f.text));
}

const carriesFiles = e => [...e.dataTransfer?.types ?? []].includes('Files');

function setUpAttach() {
  const input = byId('file-input');
  byId('attach').onclick = () => input.click();
  input.onchange = () => {
    attach([...input.files]);
    input.value = '';
  };
  let depth = 0;   // dragenter comes for every element on the way
  const over = on => {
    depth = on ? depth + 1 : Math.max(0, depth - 1);
    document.body.classList.toggle('dropping', depth > 0);
  };
  addEventListener('dragenter', e => { if (carriesFiles(e)) over(true); });
  addEventListener('dragleave', e => { if (carriesFiles(e)) over(false); });
  addEventListener('dragover', e => { if (carriesFiles(e)) e.preventDefault(); });
  addEventListener('drop', e => {
    if (!carriesFiles(e)) return;
    e.preventDefault();
    depth = 0;
    document.body.classList.remove('dropping');
    attach([...e.dataTransfer.files]);
  });
  byId('input').addEventListener('paste', e => {
    if (!e.clipboardData?.files.length || e.clipboardData.getData('text/plain')) return;
    e.preventDefault();
    attach([...e.clipboardData.files]);
  });
}
