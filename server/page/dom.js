'use strict';
// dom.js: making elements. Nothing in the page assigns HTML: what a model says becomes text nodes and nothing else.

const byId = id => document.getElementById(id);

// el('a', { class: 'x', href: u, onclick: f }, child, 'text', ...): null, undefined and false are left out.
function el(tag, props, ...kids) {
  const e = document.createElement(tag);
  for (const name in props) {
    const v = props[name];
    if (v === null || v === undefined || v === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), v);
    else e.setAttribute(name, v === true ? '' : v);
  }
  for (const k of kids) if (k !== null && k !== undefined && k !== false) e.append(k);
  return e;
}

function icon(name) {
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg'), use = document.createElementNS(ns, 'use');
  use.setAttribute('href', '#i-' + name);
  svg.setAttribute('aria-hidden', 'true');
  svg.append(use);
  return svg;
}

function tool(name, title, onclick) {
  return el('button', { type: 'button', class: 'tool', title, 'aria-label': title, onclick }, icon(name));
}

// Where the clipboard's interface is missing (plain HTTP to another machine) the old way still works.
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = el('textarea', { class: 'unseen' });
  area.value = text;
  (document.querySelector('dialog[open]') || document.body).append(area);
  area.select();
  const ok = document.execCommand('copy');
  area.remove();
  if (!ok) throw new Error('The browser does not let this page copy.');
}

// A button that copies what text() gives, and says so.
function copyButton(text, title = 'Copy') {
  const b = tool('copy', title, async () => {
    let done = 'done';
    try {
      await copyText(text());
      say('Copied');
    } catch {
      done = 'close';
      say('The browser does not let this page copy.');
    }
    b.replaceChildren(icon(done));
    setTimeout(() => b.replaceChildren(icon('copy')), 1500);
  });
  return b;
}

// For screen readers: one line at a time, never a token at a time.
function say(line) {
  const live = byId('live');
  live.textContent = '';
  setTimeout(() => { live.textContent = line; }, 50);
}

let toastTimer = 0;
// A line at the foot for some seconds, with a button when there is something to do.
function toast(line, action, onclick) {
  const box = byId('toast');
  const hide = () => { box.hidden = true; };
  clearTimeout(toastTimer);
  box.replaceChildren(el('span', null, line),
    action ? el('button', { type: 'button', onclick: () => { hide(); onclick(); } }, action) : '');
  box.hidden = false;
  toastTimer = setTimeout(hide, action ? 8000 : 4000);
}

const count = n => n.toLocaleString('en');
const bytes = n => n < 1000 ? words(n, 'byte') : n < 1e6 ? (n / 1000).toFixed(n < 1e4 ? 1 : 0) + ' kB' : (n / 1e6).toFixed(1) + ' MB';
const seconds = ms => ms < 995 ? Math.round(ms) + ' ms'
  : ms < 9950 ? (ms / 1000).toFixed(1) + ' s'
  : ms < 59500 ? Math.round(ms / 1000) + ' s'
  : Math.floor((ms + 500) / 60000) + ' min ' + Math.round(ms / 1000) % 60 + ' s';
const words = (n, one) => count(n) + ' ' + one + (n === 1 ? '' : 's');
