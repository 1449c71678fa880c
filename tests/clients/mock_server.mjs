// A stand-in for `zinc serve`: the page's side of the API with scripted answers, for developing the page and for tests
// that need failures on demand. The first word of the last message chooses the answer; see `scripts`.
//
//     node tests/clients/mock_server.mjs [PORT] [PAGE.html]      without PAGE the page is put together at each request
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { pathToFileURL } from 'node:url';

const sleep = ms => new Promise(r => setTimeout(r, ms));

export const article = `Here is a small **overview** of how a transformer reads its own past.

## Three ideas

1. *Keys and values* are kept for every token, so that nothing is computed twice.
2. A new token only asks one question:
   - which of the old keys fit,
   - and what their values say.
3. The answer is a weighted mean, \`softmax(q k) v\`.

\`\`\`c
/* One head, one query: scores, weights, mean. */
static void attend(const float *q, const float *k, const float *v, float *out, int n, int d)
{
    for (int i = 0; i < n; i++)
        score[i] = dot(q, k + i * d, d) / sqrtf(d);
    softmax(score, n);
    for (int j = 0; j < d; j++)
        out[j] = weighted(score, v + j, n, d); // a stride of d
}
\`\`\`

| Part | Cost per token | Grows with the context |
|:-----|---------------:|:----------------------:|
| projections | 4 d² | no |
| scores | n d | yes |
| feed forward | 8 d² | no |

> What is kept is not the text, but what the model thought of it.

See [the documentation](https://example.org/attention) for more, or ask on.`;

const xss = `<script>window.pwned = 1</script> <img src=x onerror="window.pwned=1"> <b>bold?</b>
[click](javascript:window.pwned=1) [data](data:text/html,<script>window.pwned=1</script>) <a href="javascript:1">a</a>

\`\`\`"><img src=x onerror=window.pwned=1>
</code></pre><script>window.pwned = 1</script>
\`\`\`

| <svg onload=window.pwned=1> | b |
|---|---|
| <iframe src="javascript:window.pwned=1"> | c |`;

// Each gives { reasoning, text, pause (ms per piece), status, retryAfter, breakAfter (pieces), error, finish, calls: [{ name,
// args }], steps: each piece of them when `state.next` allows it, read: [tokens read so far, of 60000, likewise] }.
const scripts = {
  article: () => ({ text: article }),
  think: () => ({ reasoning: 'The user wants a sum.\n\n12 + 30 is 42, so:', text: 'It is **42**.', pause: 30 }),
  code: () => ({ text: 'So:\n\n```js\nconst greet = name => `Hello ${name}`; // <b>\n```\n' }),
  slow: () => ({ text: 'word '.repeat(20000), pause: 25 }),
  long: () => ({ text: `${article}\n\n`.repeat(50), pause: 0 }),
  xss: () => ({ text: xss }),
  unicode: () => ({ text: '日本語のテキスト 🙂 naïve — ünïcödé 👩‍👩‍👧', bytewise: true }),
  broken: n => n === 1 ? { text: 'this breaks off soon, does it not', breakAfter: 4 } : { text: 'Whole again.' },
  midway: n => n === 1 ? { text: 'an error comes in the middle', breakAfter: 3, error: 'the GPU went away' } : { text: 'Whole again.' },
  busy: n => n === 1 ? { status: 429, retryAfter: 1, error: 'the queue is full' } : { text: 'Now there was room.' },
  refuse: () => ({ status: 400, error: 'temperature must be between 0 and 2', param: 'temperature' }),
  context: () => ({ status: 400, code: 'context_length_exceeded', error: 'the prompt has 9000 tokens, the context 8192' }),
  fail: () => ({ status: 500, error: 'something went wrong' }),
  limit: () => ({ text: 'as far as it goes', finish: 'length' }),
  empty: () => ({ text: '' }),
  read: () => ({ text: 'All of it.', read: [512, 30000, 59000] }),
  weather: () => ({ text: '', finish: 'tool_calls', calls: [{ name: 'weather', args: '{"city":"Ghent","days":2}' },
    { name: 'clock', args: '{"<b>zone</b>":"x"}' }] }),
  slowly: () => ({ text: '', finish: 'tool_calls', steps: true, calls: [{ name: 'weather', args: '{"city":"Ghent"}' }] }),
};

// state: { key, requests: [body], aborted, models: what /v1/models lists, null for one } is shared with the test.
export function mockServer({ page, key = '', port = 0 } = {}) {
  const state = { key, requests: [], aborted: 0, seen: new Map(), next: null, models: null };
  const html = () => page ? readFileSync(page) : execFileSync('tools/gen/inline_page.sh', ['server/page/index.html']);

  function fail(res, status, { error, code = null, param = null, retryAfter }) {
    const headers = { 'content-type': 'application/json' };
    if (retryAfter) headers['retry-after'] = String(retryAfter);
    res.writeHead(status, headers).end(JSON.stringify({ error: { message: error, type: 'error', param, code } }));
  }

  async function chat(req, res, body) {
    state.requests.push(body);
    const newest = body.messages.at(-1);
    const said = newest.role === 'tool' ? 'results of ' + body.messages.filter(m => m.role === 'tool').map(m => m.name + ': ' + m.content).join(', ')
      : (body.messages.findLast(m => m.role === 'user')?.content ?? '').split('\n\n').at(-1), word = said.split(/\s/)[0];
    const n = (state.seen.get(said) ?? 0) + 1;
    state.seen.set(said, n);
    const s = scripts[word]?.(n) ?? { text: `You said: ${said} (${n})` };
    if (s.status) return fail(res, s.status, s);
    let gone = false;
    res.on('close', () => {
      if (!res.writableFinished) gone = true, state.aborted++;
    });
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    const base = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'mock-8b' };
    const write = async bytes => {
      if (!s.bytewise) return res.write(bytes);
      for (const b of Buffer.from(bytes)) res.write(Buffer.from([b])), await new Promise(setImmediate);
    };
    const event = o => write(`data: ${JSON.stringify({ ...base, ...o })}\n\n`);
    const delta = (d, finish = null) => event({ choices: [{ index: 0, delta: d, finish_reason: finish }] });
    const begun = Date.now();
    let pieces = 0;
    const say = async (name, text) => {
      for (const piece of text.match(/\S+\s*|\s+/g) ?? []) {
        if (gone || (s.breakAfter && pieces === s.breakAfter)) return;
        await delta({ [name]: piece });
        pieces++;
        if (s.pause !== 0 || pieces % 50 === 0) await sleep(s.pause ?? 4);
      }
    };
    await delta({ role: 'assistant', content: '' });
    for (const processed of body.return_progress ? s.read ?? [] : []) {
      await event({ choices: [{ index: 0, delta: {}, finish_reason: null }],
        prompt_progress: { total: 60000, cache: 512, processed, time_ms: Date.now() - begun } });
      await new Promise(r => { state.next = r; });
    }
    if (body.enable_thinking !== false) await say('reasoning_content', s.reasoning ?? '');
    await say('content', s.text);
    if (s.breakAfter) {
      if (s.error) await write(`data: ${JSON.stringify({ error: { message: s.error } })}\n\n`);
      await sleep(1500);  // what was sent arrives before the break
      return s.error ? res.end() : res.destroy();
    }
    for (const [index, { name, args }] of (s.calls ?? []).entries()) {
      await delta({ tool_calls: [{ index, id: 'call_' + index, type: 'function', function: { name, arguments: '' } }] });
      for (const piece of args.match(/.{1,5}/gs)) {
        if (s.steps && !gone) await new Promise(r => { state.next = r; res.on('close', r); });
        if (!gone) await delta({ tool_calls: [{ index, function: { arguments: piece } }] });
      }
    }
    if (gone) return;
    await delta({}, s.finish ?? 'stop');
    const ms = Math.max(1, Date.now() - begun);
    await event({ choices: [], usage: { prompt_tokens: 24, completion_tokens: pieces, total_tokens: 24 + pieces,
      prompt_tokens_details: { cached_tokens: 16 } },
    timings: { prompt_n: 24, prompt_ms: 10, predicted_n: pieces, predicted_ms: ms, predicted_per_second: 1000 * pieces / ms } });
    await write('data: [DONE]\n\n');
    res.end();
  }

  const server = http.createServer((req, res) => {
    let body = '';
    req.on('data', d => { body += d; });
    req.on('end', () => {
      const path = req.url.split('?')[0];
      if (path === '/') return res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(html());
      if (path === '/favicon.ico') return res.writeHead(204).end();
      if (path === '/health') return res.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}');
      if (state.key && req.headers.authorization !== 'Bearer ' + state.key)
        return fail(res, 401, { error: 'this API key is not known', code: 'invalid_api_key' });
      if (path === '/v1/models')
        return res.writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ object: 'list', data: state.models ?? [{ id: 'mock-8b', object: 'model', max_model_len: 8192 }] }));
      if (path === '/v1/chat/completions') return chat(req, res, JSON.parse(body));
      fail(res, 404, { error: 'no such path' });
    });
  });
  return new Promise(resolve => server.listen(port, '127.0.0.1', () =>
    resolve({ server, state, url: `http://127.0.0.1:${server.address().port}/` })));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  console.log((await mockServer({ port: Number(process.argv[2] ?? 0), page: process.argv[3] })).url);
