'use strict';
// settings.js: sampling, thinking, appearance and the key. What is empty is not sent: the server decides.

const SAMPLING = [
  ['temperature', 'Temperature', { min: 0, max: 2, step: 0.05, title: '0 always takes the likeliest token' }],
  ['top_p', 'Top p', { min: 0, max: 1, step: 0.01, title: 'only the likeliest tokens that make up this share' }],
  ['top_k', 'Top k', { min: 0, step: 1, title: 'only the k likeliest tokens; 0: all' }],
  ['min_p', 'Min p', { min: 0, max: 1, step: 0.01, title: 'only tokens with this share of the best probability' }],
  ['max_tokens', 'Max tokens', { min: 1, step: 1, title: 'the answer ends here' }],
  ['seed', 'Seed', { min: 0, step: 1, title: 'the same seed gives the same answer' }],
  ['repetition_penalty', 'Repetition penalty', { min: 0.5, max: 2, step: 0.01, title: '1: none' }],
  ['presence_penalty', 'Presence penalty', { min: -2, max: 2, step: 0.1, title: '0: none' }],
  ['frequency_penalty', 'Frequency penalty', { min: -2, max: 2, step: 0.1, title: '0: none' }],
  ['thinking_budget', 'Thinking tokens', { min: 0, step: 1, title: 'thinking ends here' }],
];

const settings = {
  values: {},   // by name; and `thinking`: '', on, off

  load() {
    try {
      const v = JSON.parse(localStorage.getItem('zinc.settings') || '{}');
      if (v && typeof v === 'object') this.values = v;
    } catch { /* the server's then */ }
  },

  save() {
    try { localStorage.setItem('zinc.settings', JSON.stringify(this.values)); } catch { /* until the page goes */ }
  },

  // For the body of a request.
  fields() {
    const f = {};
    for (const [name] of SAMPLING) if (Number.isFinite(this.values[name])) f[name] = this.values[name];
    if (this.values.thinking) f.enable_thinking = this.values.thinking === 'on';
    return f;
  },
};

function samplingField([name, label, limits]) {
  const input = el('input', { type: 'number', name, inputmode: 'decimal', placeholder: 'default', ...limits });
  input.oninput = () => {
    const ok = input.value !== '' && input.checkValidity();
    if (ok) settings.values[name] = input.valueAsNumber;
    else delete settings.values[name];
    settings.save();
  };
  return el('label', { title: limits.title }, label, input);
}

function showSampling() {
  for (const i of byId('sampling').querySelectorAll('input')) i.value = settings.values[i.name] ?? '';
  byId('thinking').value = settings.values.thinking ?? '';
}

function setTheme(theme) {
  applyTheme(theme);
  try { localStorage.setItem('zinc.theme', theme); } catch { /* until the page goes */ }
  for (const r of byId('theme-choice').querySelectorAll('input')) r.checked = r.value === theme;
}

function isDark() {
  const t = document.documentElement.dataset.theme;
  return t ? t === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

// The focus moves at once: the event 'close' comes later, when it may be in another field already.
function shut(dialog) {
  dialog.close();
  byId('input').focus();
}

function setUpSettings() {
  settings.load();
  byId('sampling').append(...SAMPLING.map(samplingField));
  byId('sampling-reset').onclick = () => {
    settings.values = {};
    settings.save();
    showSampling();
    say("All values are the server's");
  };
  byId('thinking').onchange = e => {
    settings.values.thinking = e.target.value;
    settings.save();
  };
  byId('theme-choice').onchange = e => setTheme(e.target.value);
  byId('theme').onclick = () => setTheme(isDark() ? 'light' : 'dark');
  setTheme(savedTheme());
  showSampling();
  byId('key').value = apiKey();
  byId('key').onchange = e => saveKey(e.target.value);
  for (const d of document.querySelectorAll('dialog')) {
    d.onclick = e => { if (e.target === d || e.target.closest('[data-close]')) shut(d); };
    d.oncancel = e => {
      e.preventDefault();
      shut(d);
    };
  }
  byId('settings-open').onclick = openSettings;
  byId('help-open').onclick = () => byId('help').showModal();
}

function saveKey(key) {
  byId('key').value = key.trim();
  try {
    if (key.trim()) localStorage.setItem('zinc.key', key.trim());
    else localStorage.removeItem('zinc.key');
  } catch {
    toast('This browser does not keep the key.');
  }
  loadModel();
}

// The field says what is wrong with what stands in it.
function checkFunctions() {
  let wrong = '';
  try {
    parseFunctions(byId('functions').value);
  } catch (e) {
    wrong = e.message;
  }
  byId('functions').setCustomValidity(wrong);
  byId('functions').title = wrong;
}

function openSettings() {
  byId('system').value = app.chat.system;
  byId('functions').value = app.chat.functions ?? '';
  checkFunctions();
  byId('settings').showModal();
}
