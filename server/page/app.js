'use strict';
// app.js: the open conversation, and the answers that are on their way.

const app = {
  chat: blankChat(),   // the open one
  ready: false,
  opening: null,       // the id of the conversation that is being fetched
  views: [],           // of its messages
  runs: new Map(),     // answers on their way, by the conversation's id; they go on while another one is open
  model: null,
  stuck: true,         // the end was in sight, so it stays in sight
};
const others = typeof BroadcastChannel === 'function' ? new BroadcastChannel('zinc') : null;
const tellOthers = id => others?.postMessage(id);

function blankChat() {
  return { id: newId(), title: '', named: false, created: Date.now(), updated: 0, system: '', functions: '', messages: [] };
}

async function saveChat(chat, quietly) {
  chat.updated = Date.now();
  try {
    await store.put(chat);
  } catch (e) {
    toast(e?.name === 'QuotaExceededError' ? "The browser's storage is full: delete or export conversations."
      : 'The browser did not keep this conversation.');
  }
  if (quietly) return;
  tellOthers(chat.id);
  loadChats();
}

// ---- the open conversation ----

// first: what was written while the page was not ready stays, and is sent if that was asked for.
async function openChat(id, first = false) {
  app.opening = id;
  const chat = app.runs.get(id)?.chat ?? (id ? await store.get(id) : null);
  if (app.opening !== id) return;   // another one was chosen meanwhile
  app.opening = null;
  app.chat = chat ?? blankChat();
  app.ready = true;
  for (const m of app.chat.messages) if (m.state === 'streaming' && !app.runs.has(id)) m.state = 'stopped';
  app.stuck = true;
  app.recalled = null;
  showMessages();
  showTitle();
  showChats();
  byId('input').value = (first && byId('input').value) || draft();
  grow(byId('input'));
  if (matchMedia('(hover: hover)').matches) byId('input').focus();
  if (first && app.sendWhenReady) sendInput();
}

function showTitle() {
  byId('title').textContent = app.chat.title || 'New conversation';
  document.title = (app.chat.title ? app.chat.title + ' \u00b7 ' : '') + 'zinc';
}

function showMessages() {
  app.views = app.chat.messages.filter(m => m.role !== 'tool').map(newView);
  byId('messages').replaceChildren(...app.views.map(v => v.node));
  showState();
  keepEnd();
}

function newView(message) {
  return new MessageView(message, { edit: editMessage, again: answerAgain, remove: removeMessage, turn: turnTo,
    results: m => callResults(app.chat.messages, m), result: addResult });
}

function showState() {
  const running = app.runs.has(app.chat.id), last = app.chat.messages.findLast(m => m.stats?.prompt);
  byId('empty').hidden = app.chat.messages.length > 0;
  byId('send').hidden = running;
  byId('stop').hidden = !running;
  const used = last ? last.stats.prompt + (last.stats.tokens ?? 0) : 0, limit = app.model?.context;
  byId('context').replaceChildren(...!used ? [] : limit
    ? [count(used) + ' of ' + count(limit), el('span', { class: 'word' }, ' tokens')] : [words(used, 'token')]);
  byId('context').classList.toggle('full', Boolean(limit) && used > 0.9 * limit);
}

// The draft of each conversation outlives a reload.
const draftName = () => 'zinc.draft.' + (app.chat.messages.length ? app.chat.id : 'new');
function draft(text) {
  try {
    if (text === undefined) return sessionStorage.getItem(draftName());
    if (text) sessionStorage.setItem(draftName(), text);
    else sessionStorage.removeItem(draftName());
  } catch { /* not kept */ }
  return text;
}

// ---- the end stays in sight ----

function keepEnd() {
  const s = byId('scroll');
  if (app.stuck) s.scrollTop = s.scrollHeight;
  byId('latest').hidden = app.stuck;
}

function onScroll() {
  const s = byId('scroll');
  app.stuck = s.scrollHeight - s.scrollTop - s.clientHeight < 32;
  byId('latest').hidden = app.stuck;
}

// ---- changing it ----

// more: what the message has beside its role, text and files.
function send(text, files = [], more = {}) {
  const chat = app.chat;
  text = text.trim();
  if (!(text || files.length) || app.runs.has(chat.id)) return;
  draft('');
  const first = !chat.messages.length;
  if (!chat.named && first) chat.title = (text || files[0].name).replace(/\s+/g, ' ').slice(0, 60);
  addMessage(chat, { role: 'user', content: text, files, ...more });
  app.stuck = true;
  if (first) {
    history.replaceState(null, '', '#/' + chat.id);
    showTitle();
  }
  answer(chat);
}

function addMessage(chat, message) {
  chat.messages.push(message);
  if (chat !== app.chat) return;
  const view = newView(message);
  app.views.push(view);
  byId('messages').append(view.node);
  showState();
}

// Removes messages; what was there comes back by Undo.
function cut(line, from, n = Infinity) {
  const chat = app.chat, before = structuredClone(chat.messages);
  stop(chat.id);
  if (n === Infinity || !dropVersion(chat.messages, from)) chat.messages.splice(from, n);
  for (const m of before) if (m.state === 'streaming') m.state = 'stopped';
  showMessages();
  saveChat(chat);
  if (line) toast(line, 'Undo', () => {
    stop(chat.id);
    chat.messages = before;
    saveChat(chat);
    if (chat === app.chat) showMessages();
  });
}

function removeMessage(view) {
  const { messages } = app.chat, i = messages.indexOf(view.message);
  let n = 1;
  while (messages[i + n] && (messages[i + n].role === 'tool' || (view.message.role === 'user' && messages[i + n].role !== 'user'))) n++;
  cut(view.message.versions ? 'This version was deleted' : 'Message deleted', i, n);
  byId('input').focus();
}

// Another branch of the conversation is shown.
function turnTo(view, which) {
  const { messages } = app.chat, i = messages.indexOf(view.message);
  if (i < 0 || app.runs.has(app.chat.id)) return;
  showVersion(messages, i, which);
  showMessages();
  saveChat(app.chat);
  const now = app.views.find(v => v.message === messages[i]);
  now?.focusVersions();
  say('Version ' + (which + 1) + ' of ' + versionsOf(messages[i]).length);
}

// What a call resulted in; when no other result is missing, the model goes on.
function addResult(message, call, text) {
  const { messages } = app.chat, at = messages.indexOf(message);
  if (at < 0 || app.runs.has(app.chat.id)) return;
  const results = callResults(messages, message);
  messages.splice(at + 1 + results.size, 0, { role: 'tool', call: call.id, name: call.name, content: text });
  app.views.find(v => v.message === message)?.update();
  saveChat(app.chat);
  app.stuck = true;
  if (results.size + 1 >= message.calls.length) answer(app.chat);
  byId('input').focus();
}

function answerAgain(view) {
  const { messages } = app.chat, i = messages.indexOf(view.message);
  if (i < 0 || i + 1 < messages.length) return;
  stop(app.chat.id);
  const m = view.message, kept = m.content || m.reasoning || m.calls?.length;
  const more = kept ? setAside(messages, i) : m.versions ? { versions: m.versions, version: m.version } : {};
  messages.splice(i);
  showMessages();
  app.stuck = true;
  answer(app.chat, more);
}

function editMessage(view) {
  view.edit(text => {
    const { messages } = app.chat, i = messages.indexOf(view.message);
    if (i < 0) return;
    stop(app.chat.id);
    const more = setAside(messages, i);
    showMessages();
    send(text, view.message.files, more);
    byId('input').focus();
  });
}

// ---- an answer ----

// Neighbours of one role, left by answers that failed, go as one message: chat formats want turns.
function requestMessages(chat) {
  const list = chat.system.trim() ? [{ role: 'system', content: chat.system }] : [];
  for (const m of chat.messages) {
    const last = list[list.length - 1], content = wholeText(m);
    if (m.role === 'tool') {
      list.push({ role: 'tool', tool_call_id: m.call, name: m.name, content });
    } else if (m.calls?.length && callResults(chat.messages, m).size) {   // a call that nobody answered was not made
      const results = callResults(chat.messages, m), calls = m.calls.filter(c => results.has(c.id));
      list.push({ role: m.role, content, tool_calls: calls.map(c => ({ id: c.id, type: 'function',
        function: { name: c.name, arguments: c.args } })) });
    } else if (content) {
      if (last?.role === m.role && !last.tool_calls) last.content += '\n\n' + content;
      else list.push({ role: m.role, content });
    }
  }
  return list;
}

// more: what the answer's message has beside what every answer has.
async function answer(chat, more = {}) {
  const body = { model: app.model?.id ?? 'default', messages: requestMessages(chat), stream: true, return_progress: true,
    stream_options: { include_usage: true }, ...settings.fields() };
  const message = { role: 'assistant', content: '', reasoning: '', thought: 0, state: 'streaming', stats: {}, ...more };
  const run = { chat, message, abort: new AbortController(), begun: performance.now(), first: 0, pieces: 0,
    finish: '' };
  app.runs.set(chat.id, run);
  addMessage(chat, message);
  keepEnd();
  saveChat(chat);
  say('Answering');
  const clock = setInterval(() => {
    message.waited = performance.now() - run.begun;
    if (message.reasoning && !message.content) message.thought = performance.now() - run.first;
    paintSoon(run);
  }, 250);
  const keeper = setInterval(() => saveChat(chat, true), 1000);
  try {
    const tools = parseFunctions(chat.functions);
    if (tools) body.tools = tools;
    await streamChat(body, run.abort.signal, piece => take(run, piece));
    message.state = run.finish === 'length' ? 'length' : 'done';
    hideNotice();
  } catch (e) {
    fail(run, e);
  }
  clearInterval(clock);
  clearInterval(keeper);
  delete message.waited;
  delete message.progress;
  if (app.runs.get(chat.id) === run) app.runs.delete(chat.id);
  run.over = true;
  paint(run);
  if (chat === app.chat) showState();
  if (chat.messages.includes(message)) saveChat(chat);
  announce(run);
}

function fail(run, e) {
  const { message } = run;
  if (e.name === 'AbortError') {
    message.state = 'stopped';
    return;
  }
  if (!(e instanceof ApiError)) console.error(e);
  message.state = 'error';
  const kept = e.kind === 'broke' && message.content ? 'What came is kept.' : '';
  message.error = { kind: e.kind ?? 'failed', message: e.message, detail: e.detail || kept,
    retryAt: e.retryAfter ? Date.now() + 1000 * e.retryAfter : 0 };
  if (e.kind === 'offline') watchServer();
}

function take(run, { content, reasoning, calls, progress, usage, timings, finish }) {
  const { message } = run, now = performance.now();
  if (progress?.total > 0) message.progress = { done: progress.processed, total: progress.total };
  if (calls.length) takeCalls(message, calls);
  if (content || reasoning || calls.length) {
    if (!run.first) {
      run.first = now;
      message.stats.first = now - run.begun;
    }
    if (content && message.reasoning && !message.content) message.thought = now - run.first;
    message.content += content;
    message.reasoning += reasoning;
    message.stats.tokens = ++run.pieces;   // about one token each; the server's count comes last
    if (now - run.first > 300) message.stats.rate = 1000 * (run.pieces - 1) / (now - run.first);
  }
  if (finish) run.finish = finish;
  if (usage) {
    message.stats.prompt = usage.prompt_tokens;
    message.stats.cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    message.stats.tokens = usage.completion_tokens;
  }
  if (timings?.predicted_per_second > 0 && timings.predicted_n > 1) message.stats.rate = timings.predicted_per_second;
  paintSoon(run);
}

// Paints with the display's rhythm, but at most a fifth of the time goes into it, however long the answer is.
function paintSoon(run) {
  if (run.frame || run.over || run.chat !== app.chat) return;
  run.frame = true;
  setTimeout(() => requestAnimationFrame(() => {
    run.frame = false;
    const begun = performance.now();
    if (!run.over) paint(run);
    run.pause = Math.min(1000, 4 * (performance.now() - begun));
  }), Math.max(0, (run.pause ?? 0) - 16));
}

function paint(run) {
  const view = app.views.find(v => v.message === run.message);
  if (!view) return;
  view.update();
  keepEnd();
}

function announce(run) {
  const { message } = run;
  if (run.chat !== app.chat || message.state === 'error') return;   // errors are alerts already
  const view = app.views.find(v => v.message === message);
  if (view) say((message.state === 'stopped' ? 'Stopped. ' : '') + view.body.textContent.slice(0, 600));
}

function stop(id) {
  app.runs.get(id)?.abort.abort();
  app.runs.delete(id);
}

// ---- the server ----

function notice(...content) {
  byId('notice').replaceChildren(...content);
  byId('notice').hidden = false;
}
function hideNotice() {
  clearTimeout(app.watch);
  byId('notice').hidden = true;
}

function chosenModel() {
  try { return localStorage.getItem('zinc.model'); } catch { return null; }
}

// One of several models is chosen for the answers that follow.
function showModels(several, chosen) {
  const list = byId('models');
  list.hidden = several.length < 2;
  list.replaceChildren(...several.map(m => el('option', { value: m.id }, m.id)));
  list.value = chosen ?? '';
  list.onchange = () => {
    try { localStorage.setItem('zinc.model', list.value); } catch { /* until the page goes */ }
    loadModel();
  };
}

async function loadModel() {
  try {
    const list = await (await request('v1/models')).json();
    const several = (list.data ?? []).filter(m => m.status);   // of a server of several: each says whether it is loaded
    const m = several.find(m => m.id === chosenModel()) ?? list.data?.[0];
    showModels(several, m?.id);
    app.model = m ? { id: m.id, context: m.max_model_len ?? m.context_length ?? m.meta?.n_ctx ?? 0 } : null;
    byId('model').textContent = several.length > 1 ? '' : app.model?.id ?? '';
    byId('about').textContent = app.model?.context
      ? app.model.id + ', ' + count(app.model.context) + ' tokens of context' : app.model?.id ?? '';
    hideNotice();
    showState();
  } catch (e) {
    const enter = el('button', { type: 'button', onclick: enterKey }, 'Enter it');
    if (e.kind === 'key') notice('This server asks for an API key. ', enter);
    else watchServer();
  }
}

function enterKey() {
  openSettings();
  byId('key').focus();
}

// Until the server is there again.
function watchServer() {
  clearTimeout(app.watch);
  notice('The server does not answer. Waiting for it\u2026');
  app.watch = setTimeout(async () => {
    try {
      await request('health');
      await loadModel();
    } catch {
      watchServer();
    }
  }, 3000);
}

// ---- start ----

async function start() {
  setUpSettings();
  setUpChats();
  setUpKeys();
  const kept = await store.open();
  if (!kept) toast('This browser keeps nothing: conversations end with the page.');
  await recover();
  setUpAttach();
  addEventListener('hashchange', () => {
    const id = location.hash.slice(2);
    if (id !== (app.opening ?? app.chat.id)) openChat(id, !app.ready);
  });
  await openChat(location.hash.slice(2), true);
  loadChats();
  loadModel();
  addEventListener('pagehide', () => rescue([...app.runs.values()].map(r => r.chat)));
  addEventListener('pageshow', e => { if (e.persisted) localStorage.removeItem('zinc.rescue'); });
  others?.addEventListener('message', async e => {
    loadChats();
    if (e.data === app.chat.id && !app.runs.has(e.data) && await store.get(e.data)) openChat(e.data);
  });
}
