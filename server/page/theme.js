'use strict';
// theme.js: light or dark, before the first paint. '' follows the system.
function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
function savedTheme() {
  try { return localStorage.getItem('zinc.theme') || ''; } catch { return ''; }
}
applyTheme(savedTheme());
