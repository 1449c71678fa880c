'use strict';
// message.js: one message of a conversation as it is shown.

const OUTCOME = {
  stopped: 'Stopped',
  length: 'Cut off at the limit of tokens',
};

// on: { edit, again, remove, turn, result }, what the buttons do, and results(message), the results of its calls by id.
class MessageView {
  constructor(message, on) {
    this.message = message;
    this.on = on;
    this.node = message.role === 'user' ? this.user() : this.assistant();
    this.update();
  }

  user() {
    this.body = el('div', { class: 'body' });
    this.files = el('div', { class: 'files' });
    this.tools = el('div', { class: 'tools' }, this.versionTools(), copyButton(() => this.message.content),
      tool('edit', 'Edit and send again', () => this.on.edit(this)),
      tool('delete', 'Delete with its answer', () => this.on.remove(this)));
    this.files.append(...(this.message.files ?? []).map(fileView));
    return el('article', { class: 'message user', 'aria-label': 'You' }, this.files, this.body, this.tools);
  }

  assistant() {
    this.thought = el('div', { class: 'md' });
    this.thoughtTime = el('span');
    this.thinking = el('details', { class: 'thinking', ontoggle: () => this.showThought() },
      el('summary', null, icon('fold'), this.thoughtTime), this.thought);
    this.body = el('div', { class: 'body md' });
    this.meter = el('progress', { 'aria-label': 'Prompt read', hidden: true });
    this.waiting = el('p', { class: 'waiting' }, el('i'), this.meter, el('span'));
    this.calls = el('div', { class: 'calls' });
    this.callViews = [];
    this.outcome = el('p', { class: 'outcome' });
    this.error = el('div', { class: 'error', role: 'alert', hidden: true });
    this.stats = el('span', { class: 'stats' });
    this.again = tool('again', 'Answer again', () => this.on.again(this));
    this.copy = copyButton(() => this.message.content);
    this.tools = el('div', { class: 'tools' }, this.versionTools(), this.copy, this.again,
      tool('delete', 'Delete', () => this.on.remove(this)), this.stats);
    this.markdown = new Markdown(this.body);
    this.thoughtMarkdown = new Markdown(this.thought);
    return el('article', { class: 'message assistant', 'aria-label': 'Answer' }, this.thinking, this.body, this.calls,
      this.waiting, this.outcome, this.error, this.tools);
  }

  // Which branch is shown, and the way to the others.
  versionTools() {
    this.earlier = tool('back', 'Earlier version', () => this.on.turn(this, this.message.version - 1));
    this.later = tool('fold', 'Later version', () => this.on.turn(this, this.message.version + 1));
    this.which = el('span');
    this.versions = el('span', { class: 'versions', role: 'group', 'aria-label': 'Versions' }, this.earlier, this.which, this.later);
    return this.versions;
  }

  showVersions() {
    const { versions, version } = this.message;
    this.versions.hidden = !versions;
    if (!versions) return;
    this.which.textContent = (version + 1) + '/' + versions.length;
    this.earlier.disabled = version === 0;
    this.later.disabled = version === versions.length - 1;
  }

  focusVersions() {
    (this.earlier.disabled ? this.later : this.earlier).focus();
  }

  update() {
    const m = this.message;
    this.showVersions();
    if (m.role === 'user') {
      this.body.textContent = m.content;
      this.body.hidden = !m.content;
      return;
    }
    const live = m.state === 'streaming';
    this.node.setAttribute('aria-busy', String(live));
    this.markdown.update(m.content, live);
    this.thinking.hidden = !m.reasoning;
    this.thoughtTime.textContent = (live && !m.content ? 'Thinking ' : 'Thought for ') + seconds(m.thought);
    this.showThought();
    this.waiting.hidden = !live || Boolean(m.content || m.calls?.length);
    this.showWaiting(m);
    this.showCalls(m, live);
    this.outcome.hidden = !OUTCOME[m.state];
    this.outcome.textContent = OUTCOME[m.state] ?? '';
    this.tools.classList.toggle('live', live);
    this.copy.hidden = !m.content;
    this.showStats(live);
    if (m.error !== this.shownError) this.showError(m.error);
  }

  // The prompt is being read: how far it is, where the server says so.
  showWaiting(m) {
    const p = m.reasoning ? null : m.progress, text = this.waiting.lastChild;
    this.meter.hidden = !p;
    if (p) {
      this.meter.max = p.total;
      this.meter.value = p.done;
      text.textContent = count(p.done) + ' of ' + words(p.total, 'token') + ' read, ' + seconds(m.waited ?? 0);
    } else {
      text.textContent = m.reasoning ? '' : m.waited > 1500 ? 'Reading, ' + seconds(m.waited) : '';
    }
  }

  showCalls(m, live) {
    const calls = m.calls ?? [], results = calls.length ? this.on.results(m) : null;
    while (this.callViews.length < calls.length) {
      const call = calls[this.callViews.length], view = new CallView(call, text => this.on.result(m, call, text));
      this.callViews.push(view);
      this.calls.append(view.node);
    }
    this.callViews.forEach((v, i) => v.update(results.get(calls[i].id), !live && m.state === 'done'));
  }

  showThought() {
    if (this.thinking.open && this.message.reasoning)
      this.thoughtMarkdown.update(this.message.reasoning, this.message.state === 'streaming');
  }

  showStats(live) {
    const s = this.message.stats ?? {}, parts = [];
    if (s.tokens) parts.push(words(s.tokens, 'token'));
    if (s.rate) parts.push((s.rate < 9.95 ? s.rate.toFixed(1) : count(Math.round(s.rate))) + ' tok/s');
    if (!live && s.first) parts.push('first after ' + seconds(s.first));
    this.stats.textContent = parts.join(' \u00b7 ');
    this.stats.title = s.prompt === undefined ? ''
      : words(s.prompt, 'token') + ' read' + (s.cached ? ', ' + count(s.cached) + ' of them from the cache' : '');
  }

  showError(error) {
    this.shownError = error;
    clearInterval(this.countdown);
    this.error.hidden = !error;
    if (!error) return this.error.replaceChildren();
    const retry = el('button', { type: 'button', onclick: () => this.on.again(this) }, 'Try again');
    const detail = error.detail ? el('p', { class: 'detail' }, error.detail) : null;
    this.error.replaceChildren(el('p', null, error.message), ...detail ? [detail] : [],
      error.kind === 'key' ? this.keyForm() : el('div', { class: 'row' }, retry));
    if (error.kind === 'busy' && error.retryAt > Date.now()) this.countDown(retry, error);
  }

  // The server said when to come back.
  countDown(retry, error) {
    const never = el('button', { type: 'button', onclick: () => {
      clearInterval(this.countdown);
      never.remove();
      retry.textContent = 'Try again';
      error.retryAt = 0;
    } }, 'Cancel');
    retry.after(never);
    const tick = () => {
      const left = Math.ceil((error.retryAt - Date.now()) / 1000);
      if (!this.node.isConnected || left <= 0) clearInterval(this.countdown);
      if (this.node.isConnected && left <= 0) this.on.again(this);
      else retry.textContent = 'Trying again in ' + left + ' s';
    };
    this.countdown = setInterval(tick, 250);
    tick();
  }

  keyForm() {
    const input = el('input', { type: 'password', 'aria-label': 'API key', placeholder: 'API key', autocomplete: 'off',
      spellcheck: 'false' });
    return el('form', { class: 'row', onsubmit: e => {
      e.preventDefault();
      if (!input.value.trim()) return input.focus();
      saveKey(input.value);
      this.on.again(this);
    } }, input, el('button', null, 'Use this key'));
  }

  // The message becomes a field; `send` gets the new text.
  edit(send) {
    const area = el('textarea', { rows: '1', 'aria-label': 'Edit the message' });
    const close = () => {
      form.replaceWith(this.body);
      this.tools.hidden = false;
      this.node.classList.remove('editing');
      byId('input').focus();
    };
    const finish = () => {
      const text = area.value.trim();
      if (!text) return area.focus();
      close();
      send(text);
    };
    const form = el('form', { class: 'edit', onsubmit: e => { e.preventDefault(); finish(); } }, area,
      el('div', { class: 'row' }, el('button', { type: 'button', onclick: close }, 'Cancel'),
        el('button', { class: 'primary' }, 'Send')));
    area.value = this.message.content;
    area.oninput = () => grow(area);
    area.onkeydown = e => {
      if (e.key === 'Escape') {
        e.stopPropagation();
        close();
      } else if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        finish();
      }
    };
    this.body.replaceWith(form);
    this.tools.hidden = true;
    this.node.classList.add('editing');
    grow(area);
    area.focus();
  }
}

// A field as tall as its text.
function grow(area) {
  area.style.height = 'auto';
  area.style.height = Math.min(area.scrollHeight + 2, innerHeight * 0.4) + 'px';
}
