'use strict';
// store.js: conversations in the browser's database. `heads` holds what the list shows, `chats` all of it.
//
// A chat: { id, title, named, created, updated, system, functions, messages }. A message: { role, content } and, of the user,
// { files } (attach.js), of a tool { call, name }, of the assistant { reasoning, thought (ms), calls (calls.js),
// state: done|length|stopped|error|streaming, error: { kind, message, detail }, stats }; where a conversation has branches,
// { versions, version } (versions.js).

const store = {
  db: null,
  memory: new Map(),   // where the browser has no database for us

  open() {
    return new Promise(resolve => {
      const fail = () => resolve(false);
      try {
        const r = indexedDB.open('zinc', 1);
        r.onupgradeneeded = () => {
          r.result.createObjectStore('chats', { keyPath: 'id' });
          r.result.createObjectStore('heads', { keyPath: 'id' });
        };
        r.onerror = r.onblocked = fail;
        r.onsuccess = () => {
          this.db = r.result;
          this.db.onversionchange = () => this.db.close();
          resolve(true);
        };
      } catch {
        fail();
      }
    });
  },

  run(mode, work) {
    return new Promise((resolve, reject) => {
      const t = this.db.transaction(['chats', 'heads'], mode);
      const r = work(t.objectStore('chats'), t.objectStore('heads'));
      t.oncomplete = () => resolve(r?.result);
      t.onabort = t.onerror = () => reject(t.error);
    });
  },

  head: c => ({ id: c.id, title: c.title, updated: c.updated }),

  async put(chat) {
    if (!this.db) return void this.memory.set(chat.id, structuredClone(chat));
    await this.run('readwrite', (chats, heads) => {
      chats.put(chat);
      heads.put(this.head(chat));
    });
  },

  async get(id) {
    return this.db ? this.run('readonly', chats => chats.get(id)) : structuredClone(this.memory.get(id));
  },

  async remove(id) {
    if (!this.db) return void this.memory.delete(id);
    await this.run('readwrite', (chats, heads) => {
      chats.delete(id);
      heads.delete(id);
    });
  },

  async clear() {
    this.memory.clear();
    if (this.db) await this.run('readwrite', (chats, heads) => {
      chats.clear();
      heads.clear();
    });
  },

  // The newest first.
  async heads() {
    const all = this.db ? await this.run('readonly', (_, heads) => heads.getAll())
      : [...this.memory.values()].map(this.head);
    return all.sort((a, b) => b.updated - a.updated);
  },

  async all() {
    return this.db ? this.run('readonly', chats => chats.getAll()) : [...this.memory.values()];
  },
};

// ---- what is on its way when the page goes: the database may not finish, this does ----

function rescue(chats) {
  try {
    if (chats.length) localStorage.setItem('zinc.rescue', JSON.stringify(chats));
  } catch { /* larger than the browser keeps: the last regular save stands */ }
}

async function recover() {
  let chats = [];
  try {
    chats = JSON.parse(localStorage.getItem('zinc.rescue') || '[]');
    localStorage.removeItem('zinc.rescue');
  } catch { /* nothing to recover */ }
  for (const c of chats) {
    const stored = await store.get(c.id);
    if (!stored || stored.updated <= c.updated) await store.put(c);
  }
}

// ---- files ----

function exportChats(chats) {
  const text = JSON.stringify({ format: 'zinc-chats', version: 1, chats }, null, 1);
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const name = 'zinc-' + new Date().toISOString().slice(0, 10) + '.json';
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Takes only what it knows, so that a foreign file cannot bring anything odd.
function importChats(text) {
  const file = JSON.parse(text);
  if (file?.format !== 'zinc-chats' || !Array.isArray(file.chats)) throw new Error('not an export of this page');
  const string = s => typeof s === 'string' ? s : '';
  const time = t => Number.isFinite(t) ? t : Date.now();
  return file.chats.filter(c => Array.isArray(c?.messages)).map(c => ({
    id: newId(), title: string(c.title).slice(0, 200) || 'Imported', named: c.named === true,
    created: time(c.created), updated: time(c.updated), system: string(c.system), functions: string(c.functions),
    messages: importMessages(c.messages, 0),
  }));
}

const ROLES = ['user', 'assistant', 'tool'], DEEPEST = 64;   // branches in branches

function importMessages(list, depth) {
  const string = s => typeof s === 'string' ? s : '', array = a => Array.isArray(a) ? a : [];
  return list.filter(m => ROLES.includes(m?.role)).map(m => {
    const one = { role: m.role, content: string(m.content) };
    if (m.role === 'user') one.files = array(m.files).map(f => ({ name: string(f?.name) || 'text', text: string(f?.text) }));
    if (m.role === 'tool') Object.assign(one, { call: string(m.call), name: string(m.name) });
    if (m.role === 'assistant') Object.assign(one, { reasoning: string(m.reasoning), thought: Number(m.thought) || 0,
      stats: importStats(m.stats), state: m.state === 'length' || m.state === 'stopped' ? m.state : 'done',
      calls: array(m.calls).map(c => ({ id: string(c?.id), name: string(c?.name), args: string(c?.args) })) });
    const versions = depth < DEEPEST && array(m.versions).length > 1
      ? m.versions.map((b, i) => i === m.version || !Array.isArray(b) ? null : importMessages(b, depth + 1)) : [];
    if (versions.length && versions.every((b, i) => i === m.version ? b === null : b?.length))
      Object.assign(one, { versions, version: m.version });
    return one;
  });
}

function importStats(stats) {
  const s = {};
  for (const k of ['prompt', 'cached', 'tokens', 'rate', 'first']) if (Number.isFinite(stats?.[k])) s[k] = stats[k];
  return s;
}

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
