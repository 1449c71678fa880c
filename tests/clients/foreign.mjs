// Pages of other origins against a server without keys, in headless Chromium.
//
//     node tests/clients/foreign.mjs URL
//
// A page of another origin tries what pages may send unasked: forms, text/plain, images; a page whose name leads to the
// server's address (as after DNS rebinding) tries to read. The chat page's own requests must work: one answer with one
// token is generated. Exit 77: playwright-core or Chromium is missing.
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const url = new URL(process.argv[2]);
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(executablePath)) process.exit(77);
const { chromium } = createRequire(path.resolve(process.env.ZINC_CLIENTS ?? 'build/clients', 'x.js'))('playwright-core');
const other = createServer((q, a) => a.setHeader('Content-Type', 'text/html').end('<title>other</title>'));
await new Promise(done => other.listen(0, '127.0.0.1', done));
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic',
  '--host-resolver-rules=MAP evil.example 127.0.0.1', '--disable-background-networking'] });
let failed = 0;
function check(ok, what) {
  if (!ok) failed++, console.log('FAILED ' + what);
}
const body = JSON.stringify({ messages: [{ role: 'user', content: 'x' }], max_tokens: 1 });
const statuses = [];
async function open(at) {
  const page = await browser.newPage();
  page.on('response', r => { if (r.url().includes(':' + url.port)) statuses.push(r.status() + ' ' + new URL(r.url()).pathname); });
  await page.goto(at);
  return page;
}
const read = (page, at, init) => page.evaluate(async ([at, init]) => {
  try { const r = await fetch(at, init); return r.status + ' ' + (await r.text()).length; } catch { return 'refused'; }
}, [at, init]);

// another origin
let page = await open(`http://evil.example:${other.address().port}/`);
for (const at of ['v1/models', 'metrics', 'health'])
  check(await read(page, url + at) === 'refused', 'another origin reads /' + at);
for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json'])
  check(await read(page, url + 'v1/chat/completions', { method: 'POST', headers: { 'Content-Type': type }, body }) === 'refused',
    'another origin reads the answer to ' + type);
statuses.length = 0;
check(await read(page, url + 'v1/chat/completions', { method: 'POST', mode: 'no-cors', body }) === '0 0', 'an opaque answer');
await page.evaluate(([at, body]) => {
  const f = document.createElement('form'), i = document.createElement('input');
  Object.assign(f, { method: 'post', enctype: 'text/plain', action: at });
  i.name = body.slice(0, -1) + ',"x":"';
  i.value = '"}';
  f.append(i);
  document.body.append(f);
  f.submit();
}, [url + 'v1/chat/completions', body]);
await page.waitForURL(url + 'v1/chat/completions');
check(statuses.length === 2 && statuses.every(s => s.startsWith('403')), 'what a page may send unasked: ' + statuses);
await page.close();

// a name that leads here
page = await open(`http://evil.example:${url.port}/`);
check(statuses.at(-2)?.startsWith('403') || statuses.at(-1)?.startsWith('403'), 'the page under another name: ' + statuses);
for (const at of ['/v1/models', '/metrics', '/health'])
  check((await read(page, at)).startsWith('403'), 'a rebound name reads ' + at);
check((await read(page, '/v1/chat/completions', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body }))
  .startsWith('403'), 'a rebound name generates');
await page.close();

// the chat page itself, also as localhost
page = await open(url.href);
check((await read(page, '/v1/models')).startsWith('200'), 'the page reads the models');
check((await read(page, '/v1/chat/completions', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body }))
  .startsWith('200'), 'the page asks');
await page.close();
page = await open(`http://localhost:${url.port}/`);
check((await read(page, '/v1/models')).startsWith('200'), 'the page as localhost');
await browser.close();
other.close();
process.exit(failed ? 1 : 0);
