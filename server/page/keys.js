'use strict';
// keys.js: the message field and the keyboard.

// Earlier messages of this conversation in the field, as a shell has them: -1 goes back, 1 forward.
function recall(step) {
  const said = app.chat.messages.filter(m => m.role === 'user').map(m => m.content);
  const input = byId('input'), at = app.recalled ?? said.length;
  if (input.value !== (said[at] ?? '')) return false;
  const next = at + step;
  if (next < 0 || next > said.length || at === next) return false;
  app.recalled = next;
  input.value = said[next] ?? '';
  input.setSelectionRange(input.value.length, input.value.length);
  grow(input);
  return true;
}

function sendInput() {
  const input = byId('input');
  app.sendWhenReady = !app.ready && input.value.trim() !== '';
  if (!app.ready || app.runs.has(app.chat.id) || !(input.value.trim() || attached.length)) return;
  const text = input.value;
  input.value = '';
  app.recalled = null;
  grow(input);
  send(text, takeAttached());
}

function onInputKey(e) {
  if (e.isComposing) return;
  if (e.key === 'Enter' && !e.shiftKey && !e.altKey && !e.ctrlKey && !e.metaKey) {
    e.preventDefault();
    sendInput();
  } else if ((e.key === 'ArrowUp' || e.key === 'ArrowDown') && !e.ctrlKey && !e.metaKey && !e.shiftKey) {
    if (recall(e.key === 'ArrowUp' ? -1 : 1)) e.preventDefault();
  }
}

const lastView = role => app.views.findLast(v => v.message.role === role);

// With Ctrl or Cmd held. Returns whether the key was ours.
function onCommand(e) {
  const key = e.shiftKey ? 'Shift ' + e.key.toUpperCase() : e.key;
  switch (key) {
  case 'k': byId('input').focus(); return true;
  case ',': openSettings(); return true;
  case 'Shift O': byId('new').click(); return true;
  case 'Shift ENTER': {
    const v = lastView('assistant');
    if (v) answerAgain(v);
    return Boolean(v);
  }
  case 'ArrowUp': {
    const v = lastView('user');
    if (!v || byId('input').value) return false;
    editMessage(v);
    return true;
  }
  }
  return false;
}

function onKey(e) {
  if (e.defaultPrevented || document.querySelector('dialog[open]')) return;
  const writing = e.target.closest?.('input, textarea, select');
  if (e.ctrlKey || e.metaKey) {
    if (!e.altKey && onCommand(e)) e.preventDefault();
  } else if (e.key === 'Escape') {
    if (document.body.classList.contains('side')) showSide(false);
    else stop(app.chat.id);
  } else if (!writing && e.key === '/') {
    e.preventDefault();
    byId('input').focus();
  } else if (!writing && e.key === '?') {
    byId('help').showModal();
  }
}

function setUpKeys() {
  const input = byId('input');
  input.onkeydown = onInputKey;
  input.oninput = () => {
    grow(input);
    draft(input.value);
  };
  byId('composer').onsubmit = e => {
    e.preventDefault();
    sendInput();
  };
  byId('stop').onclick = () => {
    stop(app.chat.id);
    input.focus();
  };
  byId('latest').onclick = () => {
    app.stuck = true;
    keepEnd();
  };
  byId('skip').onclick = e => {
    e.preventDefault();
    input.focus();
  };
  byId('scroll').addEventListener('scroll', onScroll, { passive: true });
  byId('system').oninput = e => {
    app.chat.system = e.target.value;
    if (app.chat.messages.length) saveChat(app.chat, true);
  };
  byId('functions').oninput = e => {
    app.chat.functions = e.target.value;
    checkFunctions();
    if (app.chat.messages.length) saveChat(app.chat, true);
  };
  addEventListener('keydown', onKey);
}

start();
