// The chat page in headless Chromium.
//
//     node tests/clients/page.mjs [URL] [--page FILE] [--shots DIR] [--only NAME]
//
// Without URL a stand-in of the server answers (mock_server.mjs), with scripted failures too; with URL a real server
// does, and only what needs no script is tested. playwright-core is looked for in $ZINC_CLIENTS, else build/clients;
// Chromium is $CHROMIUM, else /usr/bin/chromium. Exit 77: one of them is missing.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { mockServer } from './mock_server.mjs';

const { values: opts, positionals } = parseArgs({ allowPositionals: true, options: {
  page: { type: 'string' }, shots: { type: 'string' }, only: { type: 'string' } } });

function skip(why) {
  console.log(why);
  process.exit(77);
}
const chromiumPath = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(chromiumPath)) skip(`no ${chromiumPath} (apt-get install chromium)`);
let chromium;
try {
  chromium = createRequire(path.resolve(process.env.ZINC_CLIENTS ?? 'build/clients', 'x.js'))('playwright-core').chromium;
} catch {
  skip('no playwright-core in build/clients (npm install --prefix build/clients --no-save playwright-core)');
}

const mock = positionals[0] ? null : await mockServer({ page: opts.page });
const url = positionals[0] ? positionals[0].replace(/\/*$/, '/') : mock.url;
const browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic',
  '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });

let passed = 0, failed = 0;
function check(ok, what) {
  if (!ok) throw new Error(what);
}
// Waits go on for as long as a slow machine may need: only what never comes takes them to their end.
const patience = 300000;
async function until(what, f) {
  for (const end = Date.now() + patience; ;) {
    if (await f()) return;
    if (Date.now() > end) throw new Error('waited in vain for: ' + what);
    await new Promise(r => setTimeout(r, 40));
  }
}

// Each test has a fresh browser profile, and fails on errors in the console and on requests to anywhere else.
async function test(name, body, { expect = /^$/, needsMock = true, ...context } = {}) {
  if ((needsMock && !mock) || (opts.only && !name.includes(opts.only))) return;
  const ctx = await browser.newContext({ viewport: { width: 1180, height: 820 }, ...context });
  await ctx.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: new URL(url).origin });
  ctx.setDefaultTimeout(patience);
  const page = await ctx.newPage(), odd = [];
  page.on('console', m => { if (m.type() === 'error' && !expect.test(m.text())) odd.push('console: ' + m.text()); });
  page.on('pageerror', e => odd.push('error: ' + e.message));
  page.on('request', r => {
    if (!r.url().startsWith(url) && !r.url().startsWith('blob:')) odd.push('request to ' + r.url());
  });
  if (mock) Object.assign(mock.state, { key: '', requests: [], aborted: 0, seen: new Map(), models: null });
  try {
    await page.goto(url);
    await body(new Chat(page), page, ctx);
    check(!odd.length, odd.join('; '));
    check(!(await page.evaluate(() => window.pwned)), 'a script of the model ran');
    passed++;
    console.log('  ok    ' + name);
  } catch (e) {
    failed++;
    console.log(`  FAIL  ${name}: ${e.message}${odd.length ? '\n        ' + odd.join('\n        ') : ''}`);
    if (opts.shots) await page.screenshot({ path: `${opts.shots}/fail-${name.replace(/\W+/g, '-')}.png` });
  }
  await ctx.close();
}

// What a user sees and does.
class Chat {
  constructor(page) {
    this.page = page;
    this.input = page.getByRole('textbox', { name: 'Message', exact: true });
    this.answers = page.locator('.message.assistant');
    this.last = this.answers.last();
  }
  async begin(text) {
    await this.input.fill(text);
    await this.input.press('Enter');
  }
  async idle() {
    await this.page.locator('#send').waitFor({ state: 'visible' });
  }
  async ask(text) {
    const n = await this.answers.count();
    await this.begin(text);
    await until('an answer', async () => await this.answers.count() > n);
    await this.idle();
    return this.text();
  }
  async text() {
    return (await this.last.locator(':scope > .body').innerText()).trim();
  }
  async button(scope, name) {
    await scope.hover();
    await scope.getByRole('button', { name, exact: true }).first().click();
  }
  clipboard() {
    return this.page.evaluate(() => navigator.clipboard.readText());
  }
}
const asked = () => mock.state.requests.at(-1);

// ---- with any server ----

const any = { needsMock: false };
const hello = mock ? 'hello there' : 'What is 2 + 2?';

await test('types, streams, counts', async (chat, page) => {
  await until('the focus', () => chat.input.evaluate(e => e === document.activeElement));
  await until('the model', async () => (await page.locator('#model').innerText()).length > 0);
  await page.keyboard.type(hello);
  await page.keyboard.press('Enter');
  await chat.answers.first().waitFor();
  await chat.idle();
  check((await chat.text()).length > 0, 'no text');
  for (const c of ['error', 'outcome', 'waiting'])
    check(!(await chat.last.locator('.' + c).isVisible()), 'shows .' + c);
  check(await page.locator('.message.user .body').innerText() === hello, 'the message is not shown');
  check(/\d+ tokens?/.test(await chat.last.locator('.stats').innerText()), 'no count of tokens');
  check(/of [\d,]+ tokens|tokens?/.test(await page.locator('#context').innerText()), 'no use of context');
  check(await chat.input.inputValue() === '', 'the field was not cleared');
}, any);

await test('stops and keeps what came', async (chat, page) => {
  await chat.begin(mock ? 'slow' : 'Tell me a story.');
  await until('some text', async () => (await chat.text()).length > 8);
  await page.keyboard.press('Escape');
  await chat.idle();
  const text = await chat.text();
  check(text.length > 8, 'the text went away');
  if (!mock) return;   // a real answer may have ended in the same moment
  check(await chat.last.locator('.outcome').innerText() === 'Stopped', 'not marked as stopped');
  await until('the server to notice', () => mock.state.aborted === 1);
  await page.waitForTimeout(200);
  check(await chat.text() === text, 'text came after the stop');
}, any);

await test('keeps the conversation over a reload', async (chat, page) => {
  const text = await chat.ask(hello);
  await page.reload();
  await until('the answer', async () => await chat.answers.count() === 1 && await chat.text() === text);
  check((await page.title()).startsWith(hello.slice(0, 10)), 'no title');
  check(await page.locator('#chats li').count() === 1, 'not in the list');
}, any);

await test('answers again, edits, deletes', async (chat, page) => {
  await chat.ask(hello);
  await chat.ask('second question');
  await chat.button(chat.last, 'Answer again');
  await chat.idle();
  check(await chat.answers.count() === 2, 'not two answers');
  if (mock) check(await chat.text() === 'You said: second question (2)', 'not answered again: ' + await chat.text());
  await chat.button(page.locator('.message.user').first(), 'Edit and send again');
  const field = page.getByRole('textbox', { name: 'Edit the message' });
  await field.fill('edited question');
  await field.press('Enter');
  await until('one pair', async () => await chat.answers.count() === 1 && await page.locator('.message.user').count() === 1);
  await chat.idle();
  check((await page.locator('.message.user .body').innerText()) === 'edited question', 'not edited');
  await page.getByRole('button', { name: 'Earlier version' }).first().click();
  await until('all four again', async () => await page.locator('.message').count() === 4);
  await chat.button(page.locator('.message.user').last(), 'Delete with its answer');
  await until('two left', async () => await page.locator('.message').count() === 2);
  await page.getByRole('button', { name: 'Undo' }).click();
  await until('all four once more', async () => await page.locator('.message').count() === 4);
}, any);

await test('branches of a conversation are kept', async (chat, page) => {
  const users = page.locator('.message.user'), shown = async () => (await page.locator('.versions:visible').allInnerTexts()).join();
  const turn = (scope, name) => scope.getByRole('button', { name, exact: true }).click();
  const edit = async (n, text) => {
    await chat.button(users.nth(n), 'Edit and send again');
    const field = page.getByRole('textbox', { name: 'Edit the message' });
    await field.fill(text);
    await field.press('Enter');
    await until('the edited message', async () => await users.nth(n).locator('.body').innerText() === text);
    await until('its answer', async () => await users.count() === n + 1 && await chat.answers.count() === n + 1);
    await chat.idle();
  };
  await chat.ask('one');
  await chat.ask('two');
  check(await shown() === '', 'versions where there is one');
  await edit(1, 'two b');
  await edit(1, 'two c');
  await chat.button(chat.last, 'Answer again');
  await until('two answers', async () => await shown() === '3/3,2/2');
  await chat.idle();
  await turn(users.nth(1), 'Earlier version');
  check(await users.nth(1).locator('.body').innerText() === 'two b' && await shown() === '2/3', 'not the second branch: ' + await shown());
  await edit(0, 'uno');
  check(await users.count() === 1 && await shown() === '2/2', 'the first message has no branches: ' + await shown());
  await page.reload();
  await until('the branch', async () => await shown() === '2/2');
  await turn(users.nth(0), 'Earlier version');
  check(await shown() === '1/2,2/3', 'branches of a branch: ' + await shown());
  check(await page.evaluate(() => document.activeElement.getAttribute('aria-label')) === 'Later version', 'the focus is lost');
  await turn(users.nth(1), 'Later version');
  check(await shown() === '1/2,3/3,2/2', 'the last branch: ' + await shown());
  await turn(chat.last, 'Earlier version');
  if (mock) check(await chat.text() === 'You said: two c (1)', 'the first answer: ' + await chat.text());
  if (mock) await chat.ask('three');
  if (mock) check(asked().messages.map(m => m.content).join('|') === 'one|You said: one (1)|two c|You said: two c (1)|three', 'sent: '
    + asked().messages.map(m => m.content).join('|'));
  await chat.button(users.nth(1), 'Delete with its answer');
  await until('two branches', async () => await shown() === '1/2,2/2');
  check(await users.nth(1).locator('.body').innerText() === 'two b', 'not the branch before it');
  await page.getByRole('button', { name: 'Undo' }).click();
  await until('three branches', async () => /^1\/2,3\/3/.test(await shown()));
}, any);

const textFile = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
await test('files of text go with a message', async (chat, page) => {
  const chips = page.getByRole('list', { name: 'Attached files' }).getByRole('listitem');
  await page.locator('#file-input').setInputFiles([textFile('a <b>.md', 'one\n```\ntwo\n```\n'), textFile('notes.py', 'x = 1\r\n')]);
  await until('two chips', async () => await chips.count() === 2);
  await page.getByRole('button', { name: 'Remove notes.py' }).click();
  await until('one chip', async () => await chips.count() === 1);
  await page.locator('#file-input').setInputFiles({ name: 'cat.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0, 1, 2]) });
  await page.getByText('cat.png was not attached: it is not text').waitFor();
  await page.locator('#file-input').setInputFiles(textFile('big.txt', 'x'.repeat(1.2e6)));
  await page.getByText('big.txt was not attached: it has 1.2 MB').waitFor();
  await chat.begin('sum it up');
  await until('an answer', async () => await chat.answers.count() === 1);
  await chat.idle();
  check(await chips.count() === 0, 'the chips stay');
  if (mock) check(asked().messages[0].content === 'File a <b>.md:\n\n````md\none\n```\ntwo\n```\n````\n\nsum it up', 'sent: ' + asked().messages[0].content);
  const file = page.locator('.message.user details');
  await file.locator('summary').click();
  check((await file.innerText()).includes('a <b>.md') && await file.locator('pre').innerText() === 'one\n```\ntwo\n```\n', 'not shown');
  await page.reload();
  await until('the file', async () => await file.count() === 1);
  await page.evaluate(() => {   // what the browser does when files are dropped
    const data = new DataTransfer();
    data.items.add(new File(['dropped'], 'd.txt'));
    for (const kind of ['dragenter', 'dragover', 'drop'])
      document.getElementById('messages').dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await until('the dropped file', async () => await chips.count() === 1);
  check(!(await page.locator('#drop').isVisible()), 'the place to drop stays');
  await chat.input.press('Enter');   // a file alone
  await until('a second answer', async () => await chat.answers.count() === 2);
  await chat.idle();
}, any);

await test('many conversations', async (chat, page) => {
  await chat.ask('first topic');
  await page.keyboard.press('Control+Shift+O');
  await until('an empty one', async () => await chat.answers.count() === 0);
  await chat.ask('second topic');
  const entries = page.locator('#chats li');
  await until('two in the list', async () => await entries.count() === 2);
  await chat.button(entries.first(), 'Rename');
  await page.keyboard.type('Renamed');
  await page.keyboard.press('Enter');
  await until('the new name', async () => await page.locator('#title').innerText() === 'Renamed');
  await page.getByRole('searchbox').fill('first');
  await until('one found', async () => await entries.count() === 1);
  await entries.first().getByRole('link').click();
  await until('the first one', async () => await page.locator('.message.user .body').innerText() === 'first topic');
  await page.goBack();
  await until('the second one', async () => await page.locator('.message.user .body').innerText() === 'second topic');
  await page.getByRole('searchbox').fill('');
  await until('both', async () => await entries.count() === 2);
  await chat.button(entries.first(), 'Delete');
  await until('one left', async () => await entries.count() === 1);
  await page.getByRole('button', { name: 'Undo' }).click();
  await until('both again', async () => await entries.count() === 2);
}, any);

await test('keyboard only', async (chat, page) => {
  await until('the focus', async () => await chat.input.evaluate(e => e === document.activeElement));
  await page.keyboard.type('line one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('line two');
  await page.keyboard.press('Enter');
  await chat.answers.first().waitFor();
  await chat.idle();
  check(await page.locator('.message.user .body').innerText() === 'line one\nline two', 'not two lines');
  await page.keyboard.press('ArrowUp');
  check(await chat.input.inputValue() === 'line one\nline two', 'nothing recalled');
  await page.keyboard.press('ArrowDown');
  check(await chat.input.inputValue() === '', 'the empty field did not come back');
  await page.keyboard.press('Tab');
  check(!(await chat.input.evaluate(e => e === document.activeElement)), 'Tab does not leave the field');
  await page.keyboard.press('Control+k');
  check(await chat.input.evaluate(e => e === document.activeElement), 'Ctrl K does not reach the field');
  await page.locator('#scroll').focus();
  await page.keyboard.press('?');
  check(await page.getByRole('dialog', { name: 'Keyboard' }).isVisible(), 'no list of shortcuts');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+,');
  check(await page.getByRole('dialog', { name: 'Settings' }).isVisible(), 'no settings');
  await page.keyboard.press('Escape');
  check(await page.evaluate(() => {
    document.getElementById('scroll').focus();
    openSettings();
    document.querySelector('#settings [data-close]').click();
    return document.activeElement.id;
  }) === 'input', 'the focus comes to the field later than the dialog goes');
  await page.locator('#scroll').focus();
  await page.keyboard.press('/');
  check(await chat.input.evaluate(e => e === document.activeElement), '/ does not reach the field');
  await page.keyboard.press('Control+ArrowUp');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('changed');
  await page.keyboard.press('Enter');
  await until('the change', async () => await page.locator('.message.user .body').innerText() === 'changed');
  await chat.idle();
}, any);

await test('takes what is typed and sent before it is ready', async (chat, page) => {
  await page.addInitScript(() => addEventListener('DOMContentLoaded', () => {   // its store is not open yet
    const input = document.getElementById('input');
    input.value = 'early bird';
    input.dispatchEvent(new Event('input', { bubbles: true }));
    input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  }));
  await page.reload();
  await until('an answer', async () => await chat.answers.count() === 1);
  await chat.idle();
  check(await page.locator('.message.user .body').innerText() === 'early bird', 'another message');
  check(await chat.input.inputValue() === '', 'the field was not cleared');
}, any);

await test('light and dark', async (chat, page) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await paper();
  check(light !== dark, 'the system is not followed');
  await page.getByRole('button', { name: 'Light or dark' }).click();
  check(await paper() === light, 'the switch does nothing');
  await page.reload();
  check(await paper() === light, 'the choice is not kept');
}, { ...any, colorScheme: 'light' });

const phone = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
await test('fits a phone', async (chat, page) => {
  await chat.ask(mock ? 'article' : hello);
  const wide = await page.evaluate(() => [...document.querySelectorAll('main, header, #composer, .message, #messages')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className || e.tagName));
  check(!wide.length, 'wider than the screen: ' + wide);
  check(await page.evaluate(() => document.documentElement.scrollWidth) <= 360, 'scrolls sideways');
  check(!(await page.locator('#side').isVisible()), 'the list is in the way');
  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.locator('#chats li').first().waitFor({ state: 'visible' });
  await page.getByRole('link', { name: 'New conversation' }).click();
  await until('an empty one', async () => await chat.answers.count() === 0);
  await until('the list gone', async () => !(await page.locator('#side').isVisible()));
  const small = await page.evaluate(() => [...document.querySelectorAll('header button, #composer button')]
    .filter(e => e.offsetParent && e.getBoundingClientRect().width < 30).map(e => e.id));
  check(!small.length, 'too small for a finger: ' + small);
}, { ...any, ...phone });

// ---- with scripted answers ----

await test('markdown and code', async (chat, page) => {
  await chat.ask('article');
  const body = chat.last.locator('.body');
  for (const s of ['h3', 'ol > li > ul > li', 'table td.right', 'blockquote', 'pre code .tk', 'a[rel~=noopener]', 'strong', 'em'])
    check(await body.locator(s).count() > 0, 'no ' + s);
  const code = body.locator('.code');
  await code.getByRole('button', { name: 'Copy code' }).click();
  const copied = await chat.clipboard();
  check(copied.startsWith('/* One head') && copied.endsWith('}') && copied.split('\n').length === 9, 'copied: ' + copied);
  check(await code.locator('.bar span').innerText() === 'c', 'no label');
  await chat.button(chat.last.locator('.tools'), 'Copy');
  await until('the message copied', async () => (await chat.clipboard()).includes('| Part | Cost per token |'));
});

await test('thinking is folded', async (chat, page) => {
  await chat.begin('think');
  const details = chat.last.locator('.thinking');
  await details.locator('summary').click();
  await until('live thoughts', async () => (await details.innerText()).includes('The user'));
  await chat.idle();
  check(await chat.text() === 'It is 42.', 'the answer: ' + await chat.text());
  check(/^Thought for \d+/.test(await details.locator('summary').innerText()), 'no time');
  await page.reload();
  await until('the answer', async () => await chat.text() === 'It is 42.');
  check(!(await details.locator('.md').isVisible()), 'not folded');
  await page.locator('#thinking').selectOption('off');
  await chat.ask('think once more');
  check(asked().enable_thinking === false, 'thinking was not switched off');
  check(!asked().messages.some(m => m.reasoning_content), 'old thoughts were sent');
});

await test('nothing that a model says runs', async (chat, page) => {
  await chat.ask('xss');
  const body = chat.last.locator('.body');
  check(await body.locator('script, img, iframe, svg:not([aria-hidden]), b').count() === 0, 'markup of the model');
  check(await body.locator('a').count() === 0, 'a link with an unsafe scheme');
  check((await body.innerText()).includes('<script>window.pwned = 1</script>'), 'the text is not shown as it is');
  await chat.ask('<img src=x onerror="window.pwned=1">');
  check(await page.locator('.message.user img').count() === 0, 'markup of the user');
  await page.waitForTimeout(100);
});

await test('markup would not run either', async (chat, page) => {
  await page.evaluate(() => {
    document.body.insertAdjacentHTML('beforeend', '<img src="x" onerror="window.pwned = 2">');
    const s = document.createElement('script');
    s.textContent = 'window.pwned = 3';
    document.body.append(s);
  });
  await page.waitForTimeout(200);
}, { ...any, expect: /Content Security Policy|Failed to load/ });

await test('characters cut between packets', async chat => {
  const text = await chat.ask('unicode');
  check(text === '日本語のテキスト 🙂 naïve — ünïcödé 👩‍👩‍👧', 'got ' + text);
});

await test('settings reach the server', async (chat, page) => {
  await chat.ask('hi');
  check(!('temperature' in asked()) && !('enable_thinking' in asked()), 'values that nobody set');
  check(asked().stream && asked().stream_options.include_usage, 'no stream with usage');
  await page.keyboard.press('Control+,');
  const values = { 'Temperature': '0.3', 'Top p': '0.9', 'Top k': '40', 'Min p': '0.05', 'Max tokens': '99', 'Seed': '7',
    'Repetition penalty': '1.1', 'Presence penalty': '0.5', 'Frequency penalty': '-0.5', 'Thinking tokens': '256' };
  for (const [label, v] of Object.entries(values)) await page.getByLabel(label).fill(v);
  await page.getByLabel('System prompt').fill('Be brief.');
  await page.keyboard.press('Escape');
  await chat.ask('again');
  const a = asked();
  check(a.temperature === 0.3 && a.top_p === 0.9 && a.top_k === 40 && a.min_p === 0.05 && a.max_tokens === 99 && a.seed === 7 &&
    a.repetition_penalty === 1.1 && a.presence_penalty === 0.5 && a.frequency_penalty === -0.5 && a.thinking_budget === 256,
  'sent ' + JSON.stringify(a));
  check(a.messages[0].role === 'system' && a.messages[0].content === 'Be brief.', 'no system prompt');
  check(a.messages.map(m => m.role).join() === 'system,user,assistant,user', 'roles: ' + a.messages.map(m => m.role));
  await page.keyboard.press('Control+,');
  await page.getByLabel('Temperature').fill('9');
  await page.keyboard.press('Escape');
  await page.reload();
  await until('the conversation', async () => await chat.answers.count() === 2);
  await chat.ask('more');
  check(!('temperature' in asked()) && asked().top_k === 40, 'out of range was sent, or the rest was lost');
  check(asked().messages[0].content === 'Be brief.', 'the system prompt was lost');
  await page.keyboard.press('Control+Shift+O');
  await until('an empty one', async () => await chat.answers.count() === 0);
  await chat.ask('elsewhere');
  check(asked().messages[0].role === 'user', 'the system prompt went into another conversation');
});

await test('shows how far the prompt is read', async (chat, page) => {
  await chat.begin('read');
  const meter = chat.last.getByRole('progressbar', { name: 'Prompt read' });
  const step = async () => {
    await until('the server', () => mock.state.next);
    mock.state.next();
    mock.state.next = null;
  };
  for (const n of ['512', '30,000', '59,000']) {
    await until(n + ' tokens', async () => (await chat.last.locator('.waiting').innerText()).includes(n + ' of 60,000 tokens read'));
    check(Number(await meter.getAttribute('value')) === Number(n.replace(',', '')) && await meter.getAttribute('max') === '60000', 'the meter');
    await step();
  }
  await chat.idle();
  check(asked().return_progress === true, 'no progress was asked for');
  check(await chat.text() === 'All of it.' && !(await meter.isVisible()), 'the meter stays');
});

await test('calls and their results', async (chat, page) => {
  await page.keyboard.press('Control+,');
  const field = page.getByLabel('Functions');
  await field.fill('[{"name":1}]');
  check(await field.evaluate(e => e.validationMessage) === 'Each function is an object with a name.', 'nothing wrong with it');
  await field.fill('[{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}},{"name":"clock"}]');
  check(await field.evaluate(e => e.checkValidity()), 'what is right is refused');
  await page.keyboard.press('Escape');
  await chat.ask('weather');
  check(asked().tools.map(t => t.type + t.function.name).join() === 'functionweather,functionclock', 'tools: ' + JSON.stringify(asked().tools));
  const calls = chat.last.locator('.call');
  check(await calls.count() === 2, 'not two calls');
  check(await calls.first().locator('pre').innerText() === '{\n  "city": "Ghent",\n  "days": 2\n}', 'arguments: ' + await calls.first().innerText());
  await page.getByRole('textbox', { name: 'Result of weather' }).fill('<i>rain</i>');
  await page.getByRole('textbox', { name: 'Result of weather' }).press('Enter');
  await until('one result', async () => await calls.first().locator('.result pre').count() === 1);
  check(await chat.answers.count() === 1, 'went on without the second result');
  await page.getByRole('textbox', { name: 'Result of clock' }).fill('noon');
  await page.getByRole('textbox', { name: 'Result of clock' }).press('Enter');
  await until('the answer', async () => await chat.answers.count() === 2);
  await chat.idle();
  check(await chat.text() === 'You said: results of weather: <i>rain</i>, clock: noon (1)', 'the answer: ' + await chat.text());
  const [, call, one, two] = asked().messages;
  check(call.tool_calls.map(c => c.id + c.function.arguments).join() === 'call_0{"city":"Ghent","days":2},call_1{"<b>zone</b>":"x"}'
    && one.tool_call_id === 'call_0' && two.tool_call_id === 'call_1', 'sent: ' + JSON.stringify(asked().messages));
  await page.reload();
  await until('the calls', async () => await calls.count() === 0 && await page.locator('.call .result pre').count() === 2);
  check(await page.getByRole('textbox', { name: 'Result of clock' }).count() === 0, 'asks again');
});

await test('a call while it is written', async (chat, page) => {
  await page.keyboard.press('Control+,');
  await page.getByLabel('Functions').fill('[{"name":"weather"}]');
  await page.keyboard.press('Escape');
  const call = chat.last.locator('.call'), args = call.locator('pre').first(), result = page.getByRole('textbox', { name: 'Result of weather' });
  const step = async seen => {
    await until('the next piece', () => mock.state.next);
    const next = mock.state.next;
    mock.state.next = null;
    next();
    await until(seen, async () => await args.innerText() === seen);
  };
  await chat.begin('slowly');
  await until('the name', async () => (await call.innerText()).includes('weather'));
  await step('{"cit');
  check(await result.count() === 0, 'asks for a result of half a call');
  check(await page.locator('#send').isHidden(), 'nothing can be stopped');
  await step('{"city":"G');
  await step('{"city":"Ghent"');
  await step('{\n  "city": "Ghent"\n}');
  await chat.idle();
  await until('a place for the result', async () => await result.count() === 1);
  await result.fill('rain');
  await result.press('Enter');
  await until('the answer', async () => (await chat.text()).includes('results of weather: rain'));
  await chat.idle();

  await chat.begin('slowly');
  await step('{"cit');
  await page.locator('#stop').click();
  await chat.idle();
  check(await args.innerText() === '{"cit', 'what came of the call is gone: ' + await args.innerText());
  check(await result.count() === 0, 'asks for a result of a call that was cut off');
  check((await chat.ask('and now')).startsWith('You said: and now'), 'no way on after a call that was cut off');
  check(!asked().messages.some(m => m.tool_calls?.some(c => c.function.arguments === '{"cit')), 'half a call was sent');
});

await test('one of several models', async (chat, page) => {
  const choice = page.getByLabel('Model', { exact: true });
  check(await choice.isHidden(), 'one model is a choice');
  mock.state.models = ['small', 'large'].map(id => ({ id, object: 'model', status: { value: 'unloaded' }, context_length: 4096 }));
  await page.reload();
  await until('the models', async () => await choice.isVisible());
  await chat.ask('hello');
  check(asked().model === 'small', 'asked: ' + asked().model);
  await choice.selectOption('large');
  await chat.ask('hello again');
  check(asked().model === 'large', 'asked: ' + asked().model);
  await page.reload();
  await until('the choice', async () => await choice.inputValue() === 'large');
  await chat.ask('and again');
  check(asked().model === 'large', 'asked after a reload: ' + asked().model);
});

const network = /status of|net::|Failed to load/;
await test('failures in words, with a way on', async (chat, page) => {
  const error = page.locator('.message.assistant').last().locator('.error');
  await chat.ask('refuse');
  check((await error.innerText()).includes('temperature must be between'), 'no reason');
  await chat.ask('context');
  check((await error.innerText()).includes('longer than the model can read'), 'no word about the context');
  await chat.ask('fail');
  check((await error.innerText()).includes('status 500'), 'no status');
  await chat.ask('broken');
  check((await chat.text()).startsWith('this breaks off'), 'what came is lost');
  check((await error.innerText()).includes('broke off'), 'no word about the break');
  await error.getByRole('button', { name: 'Try again' }).click();
  await until('the whole answer', async () => await chat.text() === 'Whole again.');
  await chat.ask('midway');
  check((await error.innerText()).includes('the GPU went away'), 'no error of the stream');
  await chat.ask('limit');
  check((await chat.last.locator('.outcome').innerText()).includes('limit'), 'not marked as cut off');
  check(asked().messages.every((m, i, a) => !i || m.role !== a[i - 1].role), 'two turns of one side');
}, { expect: network });

await test('waits when the server is busy', async chat => {
  await chat.begin('busy');
  await until('the countdown', async () => /Trying again in \d s/.test(await chat.last.innerText()));
  await until('the answer', async () => await chat.text() === 'Now there was room.');
}, { expect: network });

await test('asks for the key', async (chat, page) => {
  mock.state.key = 'secret';
  await page.reload();
  await page.getByText('asks for an API key').waitFor();
  await chat.begin('hello');
  const field = chat.last.getByLabel('API key');
  await field.fill('wrong');
  await field.press('Enter');
  await until('the refusal', async () => (await chat.last.innerText()).includes('not known'));
  await chat.last.getByLabel('API key').fill('secret');
  await chat.last.getByRole('button', { name: 'Use this key' }).click();
  await until('the answer', async () => (await chat.text()).startsWith('You said'));
  check(!(await page.locator('#notice').isVisible()), 'the notice stays');
  await page.reload();
  await until('the model', async () => (await page.locator('#model').innerText()) === 'mock-8b');
}, { expect: network });

await test('the server goes and comes back', async (chat, page) => {
  const { port } = mock.server.address();
  await chat.begin('slow');
  await until('some text', async () => (await chat.text()).length > 8);
  mock.server.close();
  mock.server.closeAllConnections();
  await until('the break', async () => (await chat.last.locator('.error').innerText()).includes('broke off'));
  await chat.ask('hello');
  check((await chat.last.locator('.error').innerText()).includes('does not answer'), 'no word about it');
  check(await page.locator('#notice').isVisible(), 'no notice');
  await new Promise(r => mock.server.listen(port, '127.0.0.1', r));
  await until('the notice gone', async () => !(await page.locator('#notice').isVisible()));
  await chat.last.getByRole('button', { name: 'Try again' }).click();
  await until('the answer', async () => (await chat.text()).startsWith('You said'));
}, { expect: network });

await test('a reload in the middle keeps what came', async (chat, page) => {
  await chat.begin('slow');
  await until('some text', async () => (await chat.text()).length > 40);
  const before = await chat.text();
  await page.reload();
  await until('the text', async () => await chat.answers.count() === 1 && (await chat.text()).length >= before.length);
  check((await chat.text()).startsWith(before), 'another text');
  check(await chat.last.locator('.outcome').innerText() === 'Stopped', 'not marked as stopped');
});

await test('an answer goes on while another conversation is open', async (chat, page) => {
  await chat.begin('slow');
  await until('some text', async () => (await chat.text()).length > 8);
  await page.getByRole('link', { name: 'New conversation' }).click();
  await until('an empty one', async () => await chat.answers.count() === 0);
  check(await chat.ask('meanwhile') === 'You said: meanwhile (1)', 'no second answer');
  check(await page.locator('#chats .dot').count() === 1, 'no sign of the first');
  await page.locator('#chats li', { hasText: 'slow' }).getByRole('link').click();
  const n = (await chat.text()).length;
  await until('more of it', async () => (await chat.text()).length > n + 20);
  await page.locator('#stop').click();
  await chat.idle();
});

await test('scrolls along only from the end', async (chat, page) => {
  const distance = () => page.locator('#scroll').evaluate(s => s.scrollHeight - s.scrollTop - s.clientHeight);
  await chat.ask('article');
  await chat.begin('slow');
  await until('a line or two', async () => (await chat.text()).length > 600);
  await until('it to follow', async () => await distance() < 40);
  await page.locator('#messages').hover();
  await page.mouse.wheel(0, -400);
  await until('it to scroll back', async () => await distance() > 200);
  await page.waitForTimeout(150);
  const top = () => page.locator('#scroll').evaluate(s => s.scrollTop);
  const there = await top();
  const n = (await chat.text()).length;
  await until('more text', async () => (await chat.text()).length > n + 100);
  check(Math.abs(await top() - there) < 2, 'was pulled away');
  await page.getByRole('button', { name: 'To the end' }).click();
  await until('the end', async () => await distance() < 40);
  await page.keyboard.press('Escape');
});

await test('files do not cover the end', async (chat, page) => {
  const distance = () => page.locator('#scroll').evaluate(s => s.scrollHeight - s.scrollTop - s.clientHeight);
  await chat.ask('article');
  await until('the end', async () => await distance() < 2);
  await page.locator('#file-input').setInputFiles({ name: 'n.txt', mimeType: 'text/plain', buffer: Buffer.from('text') });
  await page.getByRole('button', { name: 'Remove n.txt' }).waitFor();
  check(await distance() < 2, 'the end is covered by ' + await distance() + ' pixels');
});

await test('a long answer stays smooth', async (chat, page) => {
  await page.evaluate(() => {
    window.worst = 0;
    new PerformanceObserver(l => { for (const e of l.getEntries()) window.worst = Math.max(window.worst, e.duration); })
      .observe({ type: 'longtask' });
  });
  const begun = Date.now();
  await chat.ask('long');
  const n = (await chat.text()).length;
  check(n > 40000, `only ${n} characters`);
  check(await chat.last.locator('.code').count() === 50, 'not all of it');
  console.log(`        ${n} characters in ${Date.now() - begun} ms, longest task ${Math.round(await page.evaluate(() => window.worst))} ms`);
});

await test('export and import', async (chat, page) => {
  await chat.ask('<b>keep me</b>');
  await page.keyboard.press('Control+,');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export all' }).click()]);
  const file = await download.path(), saved = JSON.parse(readFileSync(file, 'utf8'));
  check(saved.chats.length === 1 && saved.chats[0].messages.length === 2, 'the file holds ' + JSON.stringify(saved));
  await page.getByRole('button', { name: 'Delete all' }).click();
  await until('none left', async () => await page.locator('#chats li').count() === 0 && await chat.answers.count() === 0);
  await page.locator('#import-file').setInputFiles(file);
  await until('it is back', async () => await page.locator('#chats li').count() === 1);
  await page.locator('#import-file').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{"a":1}') });
  await page.getByText('cannot be imported').waitFor();
  await page.locator('#chats li a').click();
  await until('its text', async () => (await chat.text()) === 'You said: <b>keep me</b> (1)');
});

await test('speaks to screen readers once, not for every token', async (chat, page) => {
  await page.evaluate(() => {
    window.said = [];
    new MutationObserver(() => { if (live.textContent) window.said.push(live.textContent); }).observe(live, { childList: true });
  });
  await chat.ask('article');
  await until('the answer told', async () => (await page.evaluate(() => window.said.at(-1) ?? '')).includes('overview'));
  const said = await page.evaluate(() => window.said);
  check(said.length === 2 && said[0] === 'Answering', 'said ' + said.length + ' times');
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select, textarea')]
    .filter(e => !(e.title || e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.hidden)).length);
  check(nameless === 0, nameless + ' controls without a name');
});

// The browser's own tree is what a screen reader gets: roles as it computes them, names of whatever source.
await test('roles and names in the accessibility tree, and a focus that is seen', async (chat, page, ctx) => {
  await page.locator('#file-input').setInputFiles({ name: 'n.txt', mimeType: 'text/plain', buffer: Buffer.from('text') });
  await page.getByRole('button', { name: 'Remove n.txt' }).waitFor();
  await chat.ask('weather');
  await chat.ask('one');
  await chat.button(chat.last, 'Answer again');
  await until('the second version', async () => await page.locator('.versions:visible').count() === 1);
  await chat.idle();
  await chat.input.focus();
  const stops = [];
  for (let i = 0; i < 3; i++) {
    await page.keyboard.press('Tab');
    stops.push(await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return document.activeElement.id + (style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2 ? '' : ' unseen');
    }));
  }
  check(stops.join() === 'attach,thinking,send', 'Tab goes to ' + stops);
  const cdp = await ctx.newCDPSession(page), { nodes } = await cdp.send('Accessibility.getFullAXTree');
  const told = nodes.filter(n => !n.ignored).map(n => `${n.role?.value}:${n.name?.value ?? ''}`);
  for (const s of ['main:', 'complementary:Conversations', 'navigation:Conversations', 'heading:weather', 'article:You', 'article:Answer',
    'button:Earlier version', 'button:Later version', 'button:Attach files of text', 'textbox:Message', 'textbox:Result of weather',
    'combobox:Thinking', 'button:Send (Enter)'])
    check(told.includes(s), `no ${s} in ${[...new Set(told)].filter(t => !/Text|generic|none/.test(t)).join(', ')}`);
  const nameless = nodes.filter(n => !n.ignored && !n.name?.value &&
    /^(button|link|textbox|searchbox|combobox|spinbutton|progressbar|dialog)$/.test(n.role?.value));
  check(!nameless.length, 'without a name: ' + nameless.map(n => n.role.value));
});

await test('a conversation from before there were versions opens', async (chat, page) => {
  await until('the database', () => page.evaluate(() => app.ready));
  await page.evaluate(() => store.put({ id: 'old', title: 'Old', named: false, created: 1, updated: 1, system: '', messages: [
    { role: 'user', content: 'from before' },
    { role: 'assistant', content: 'kept', reasoning: '', thought: 0, state: 'done', stats: {} }] }));
  await page.goto(url + '#/old');
  await until('its answer', async () => await chat.answers.count() === 1 && await chat.text() === 'kept');
  check(await page.locator('.versions:visible').count() === 0, 'versions that are not there');
  check(await chat.ask('more') === 'You said: more (1)', 'does not go on');
  await page.getByRole('searchbox').fill('kept');
  await until('it found by its text', async () => await page.locator('#chats li[data-id="old"] a').count() === 1
    && (await page.evaluate(() => chatList.query)) === 'kept' && await page.locator('#chats li').count() === 1);
  await page.getByRole('searchbox').fill('nowhere');
  await until('nothing found', async () => await page.locator('#chats li').count() === 0);
});

// ---- pictures, to be looked at ----

async function shots(dir) {
  mkdirSync(dir, { recursive: true });
  const take = async (name, context, body) => {
    const ctx = await browser.newContext({ viewport: { width: 1180, height: 820 }, ...context }), page = await ctx.newPage();
    await page.goto(url);
    await body(new Chat(page), page);
    await page.waitForTimeout(400);
    await page.screenshot({ path: `${dir}/${name}.png` });
    await ctx.close();
  };
  const end = page => page.locator('#scroll').evaluate(s => { s.scrollTop = 0; });
  for (const colorScheme of ['light', 'dark']) {
    await take('empty-' + colorScheme, { colorScheme }, async () => {});
    await take('article-' + colorScheme, { colorScheme }, async (chat, page) => {
      await chat.ask('think');
      await chat.ask('article');
    });
    await take('article-top-' + colorScheme, { colorScheme }, async (chat, page) => {
      await chat.ask('article about attention, and how it is computed');
      await end(page);
    });
    await take('settings-' + colorScheme, { colorScheme }, async (chat, page) => {
      await chat.ask('think');
      await page.keyboard.press('Control+,');
    });
    await take('phone-' + colorScheme, { colorScheme, ...phone }, async (chat, page) => {
      await chat.ask('article');
      await end(page);
    });
  }
  await take('errors', {}, async chat => {
    await chat.ask('broken');
    await chat.ask('refuse');
    mock.state.key = 'x';
    await chat.ask('hello');
    mock.state.key = '';
  });
  await take('busy', {}, async chat => {
    mock.state.seen.clear();
    await chat.begin('busy');
    await chat.last.locator('.error').waitFor();
  });
  await take('help', {}, async (chat, page) => {
    await page.locator('#scroll').focus();
    await page.keyboard.press('?');
  });
  await take('phone-list', phone, async (chat, page) => {
    await chat.ask('hello');
    await page.getByRole('button', { name: 'Conversations' }).click();
  });
  await take('phone-settings', phone, async (chat, page) => page.getByRole('button', { name: 'Settings (Ctrl ,)' }).click());
  await take('edit', {}, async (chat, page) => {
    await chat.ask('what is this, and why does it have a second line?');
    await page.keyboard.press('Control+ArrowUp');
  });
  await take('live', {}, async (chat, page) => {
    await chat.begin('slow');
    await page.waitForTimeout(2500);
  });
}
if (opts.shots && mock) await shots(opts.shots);

await browser.close();
mock?.server.close();
mock?.server.closeAllConnections();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
