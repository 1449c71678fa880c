'use strict';
// calls.js: functions that the model may call. An answer has `calls`, { id, name, args } each, args as the model wrote them; a
// result is a message of the role `tool`, { call, name, content }, behind the answer.

// What was entered as the body of a request has it, null for nothing; throws what is wrong with it in words.
function parseFunctions(text) {
  if (!text?.trim()) return null;
  let list;
  try {
    list = JSON.parse(text);
  } catch (e) {
    throw new Error('The functions are not JSON: ' + e.message);
  }
  if (!Array.isArray(list)) list = [list];
  const tools = list.map(f => f?.type === 'function' && f.function ? f : { type: 'function', function: f });
  if (!tools.every(t => typeof t.function?.name === 'string' && t.function.name))
    throw new Error('Each function is an object with a name.');
  return tools.length ? tools : null;
}

// Adds what a piece of a stream has of calls.
function takeCalls(message, deltas) {
  message.calls ??= [];
  for (const d of deltas) {
    const call = message.calls[d.index ?? 0] ??= { id: '', name: '', args: '' };
    if (d.id) call.id = d.id;
    call.name += d.function?.name ?? '';
    call.args += d.function?.arguments ?? '';
  }
}

// Results stand right behind the answer that asked for them.
function callResults(messages, message) {
  const results = new Map();
  for (let i = messages.indexOf(message) + 1; i > 0 && messages[i]?.role === 'tool'; i++)
    results.set(messages[i].call, messages[i]);
  return results;
}

function prettyArgs(args) {
  try {
    return JSON.stringify(JSON.parse(args), null, 2);
  } catch {
    return args;   // it is still being written, or was cut off
  }
}

class CallView {
  // answer(text): what to do with a result
  constructor(call, answer) {
    this.call = call;
    this.answer = answer;
    this.name = el('code');
    this.args = el('pre', { tabindex: '0' });
    this.result = el('div', { class: 'result' });
    this.node = el('section', { class: 'call', 'aria-label': 'Call' },
      el('p', null, icon('call'), this.name), this.args, this.result);
    this.state = '';
  }

  // result: its message, null where it is missing; wanted: whether it may be written now
  update(result, wanted) {
    this.name.textContent = this.call.name || '\u2026';
    this.node.setAttribute('aria-label', 'Call of ' + this.call.name);
    this.args.textContent = prettyArgs(this.call.args);
    const state = result ? 'done' : wanted ? 'wanted' : '';
    if (state === this.state && !result) return;
    this.state = state;
    if (result) this.result.replaceChildren(el('p', { class: 'hint' }, 'Result'), el('pre', { tabindex: '0' }, result.content));
    else this.result.replaceChildren(...wanted ? [this.form()] : []);
  }

  form() {
    const area = el('textarea', { rows: '1', 'aria-label': 'Result of ' + this.call.name, placeholder: 'What it results in' });
    area.oninput = () => grow(area);
    const finish = () => this.answer(area.value);
    area.onkeydown = e => {
      if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      finish();
    };
    return el('form', { class: 'edit', onsubmit: e => { e.preventDefault(); finish(); } }, area,
      el('div', { class: 'row' }, el('button', { class: 'primary' }, 'Send the result')));
  }
}
