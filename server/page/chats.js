'use strict';
// chats.js: the list of conversations at the side.

const chatList = { heads: [], query: '' };

function dayGroup(time) {
  const start = new Date();
  start.setHours(0, 0, 0, 0);
  const days = Math.ceil((start - time) / 86400000);
  return days <= 0 ? 'Today' : days === 1 ? 'Yesterday' : days <= 7 ? 'Last 7 days' : days <= 30 ? 'Last 30 days'
    : new Date(time).toLocaleDateString('en', { month: 'long', year: 'numeric' });
}

async function loadChats() {
  const query = chatList.query;
  let heads;
  if (query) {
    const has = s => s?.toLowerCase().includes(query);
    const found = (await store.all()).filter(c => has(c.title) || [...everyMessage(c.messages)].some(m => has(m.content)));
    heads = found.map(store.head).sort((a, b) => b.updated - a.updated);
  } else {
    heads = await store.heads();
  }
  if (query !== chatList.query) return;
  chatList.heads = heads;
  showChats();
}

function showChats() {
  const nav = byId('chats');
  if (nav.querySelector('input')) return;   // a name is being written
  const focused = document.activeElement?.closest?.('#chats li')?.dataset.id;
  const parts = [];
  let group = null, list = null;
  for (const h of chatList.heads) {
    if (dayGroup(h.updated) !== group) {
      group = dayGroup(h.updated);
      list = el('ul', { 'aria-label': group });
      parts.push(el('h3', { 'aria-hidden': 'true' }, group), list);
    }
    list.append(chatEntry(h));
  }
  const none = chatList.query ? 'Nothing found.' : 'Conversations appear here.';
  if (!parts.length) parts.push(el('p', { class: 'hint' }, none));
  nav.replaceChildren(...parts);
  if (focused) nav.querySelector(`li[data-id="${CSS.escape(focused)}"] a`)?.focus();
}

function chatEntry(h) {
  const current = h.id === app.chat.id;
  const link = el('a', { href: '#/' + h.id, title: h.title, 'aria-current': current ? 'page' : null }, h.title,
    app.runs.has(h.id) ? el('i', { class: 'dot', title: 'answering' }) : null);
  const entry = el('li', { 'data-id': h.id }, link, el('span', { class: 'tools' },
    tool('edit', 'Rename', () => renameChat(h, entry)), tool('delete', 'Delete', () => deleteChat(h.id))));
  return entry;
}

function renameChat(h, entry) {
  const input = el('input', { 'aria-label': 'Name of the conversation', maxlength: '200' });
  let done = false;
  const finish = async keep => {
    if (done) return;
    done = true;
    input.remove();
    const title = input.value.trim();
    if (keep && title && title !== h.title) await editChat(h.id, c => Object.assign(c, { title, named: true }));
    await loadChats();
    byId('chats').querySelector(`li[data-id="${CSS.escape(h.id)}"] a`)?.focus();
  };
  input.value = h.title;
  input.onblur = () => finish(true);
  input.onkeydown = e => {
    e.stopPropagation();
    if (e.key === 'Enter' && !e.isComposing) finish(true);
    if (e.key === 'Escape') finish(false);
  };
  entry.replaceChildren(input);
  input.select();
}

// Changes a conversation wherever it is now: open, answering, or only stored.
async function editChat(id, change) {
  const chat = app.chat.id === id ? app.chat : app.runs.get(id)?.chat ?? await store.get(id);
  if (!chat) return;
  change(chat);
  await saveChat(chat);
  if (chat === app.chat) showTitle();
}

async function deleteChat(id) {
  stop(id);
  const chat = app.chat.id === id ? app.chat : await store.get(id);
  await store.remove(id);
  tellOthers(id);
  if (app.chat.id === id) location.hash = '#/';
  await loadChats();
  toast('Conversation deleted', 'Undo', async () => {
    if (chat) await saveChat(chat);
    location.hash = '#/' + id;
  });
}

async function deleteAll() {
  const chats = await store.all();
  for (const id of app.runs.keys()) stop(id);
  await store.clear();
  tellOthers('');
  location.hash = '#/';
  await openChat('');
  await loadChats();
  toast(words(chats.length, 'conversation') + ' deleted', 'Undo', async () => {
    for (const c of chats) await store.put(c);
    await loadChats();
  });
}

async function importFile(file) {
  try {
    const chats = importChats(await file.text());
    for (const c of chats) await store.put(c);
    toast(words(chats.length, 'conversation') + ' imported');
    await loadChats();
  } catch (e) {
    toast('This file cannot be imported: ' + e.message);
  }
}

function showSide(open) {
  document.body.classList.toggle('side', open);
  byId('side-open').setAttribute('aria-expanded', String(open));
  if (open) byId('new').focus();
}

function setUpChats() {
  let timer = 0;
  byId('search').oninput = e => {
    clearTimeout(timer);
    chatList.query = e.target.value.trim().toLowerCase();
    timer = setTimeout(loadChats, 150);
  };
  byId('new').onclick = () => {
    if (location.hash === '#/' || location.hash === '') openChat('');
    showSide(false);
  };
  byId('chats').onclick = e => { if (e.target.closest('a')) showSide(false); };
  byId('side-open').onclick = () => showSide(true);
  byId('side-close').onclick = byId('shade').onclick = () => showSide(false);
  byId('export-one').onclick = () => exportChats([app.chat]);
  byId('export-all').onclick = async () => exportChats(await store.all());
  byId('import').onclick = () => byId('import-file').click();
  byId('import-file').onchange = e => {
    if (e.target.files[0]) importFile(e.target.files[0]);
    e.target.value = '';
  };
  byId('delete-all').onclick = () => {
    shut(byId('settings'));
    deleteAll();
  };
}
