'use strict';
// api.js: this server's API: requests, streams of events, and failures in words.

class ApiError extends Error {
  // kind: offline, key, busy, context, refused, failed, broke
  constructor(kind, message, { detail = '', retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, detail, retryAfter });
  }
}

function apiKey() {
  try { return localStorage.getItem('zinc.key') || ''; } catch { return ''; }
}

// Addresses are relative, so that the page also works below a prefix of a reverse proxy.
async function request(path, { body, signal } = {}) {
  const headers = { accept: 'application/json, text/event-stream' };
  if (body) headers['content-type'] = 'application/json';
  if (apiKey()) headers.authorization = 'Bearer ' + apiKey();
  let r;
  try {
    r = await fetch(path, { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), signal });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    const detail = 'Is zinc still running at ' + location.host + '?';
    throw new ApiError('offline', 'The server does not answer.', { detail });
  }
  if (!r.ok) throw await failure(r);
  return r;
}

async function failure(r) {
  let error = {};
  try {
    error = (await r.json()).error ?? {};
  } catch { /* a proxy's answer, say */ }
  const detail = typeof error.message === 'string' ? error.message : '';
  const retryAfter = Math.min(600, Math.max(0, parseInt(r.headers.get('retry-after'), 10) || 0));
  const more = { detail, retryAfter };
  if (r.status === 401 || r.status === 403)
    return new ApiError('key', 'The server asks for an API key.', { detail: apiKey() && detail });
  if (r.status === 429) return new ApiError('busy', 'The server is busy with other requests.', more);
  if (r.status === 503) return new ApiError('busy', 'The server is starting or shutting down.', more);
  if (error.code === 'context_length_exceeded')
    return new ApiError('context', 'This conversation is longer than the model can read.', more);
  if (r.status === 408) return new ApiError('failed', 'The answer took longer than the server allows.', more);
  if (r.status === 413) return new ApiError('refused', 'The message is larger than the server takes.', more);
  if (r.status < 500) return new ApiError('refused', 'The server refused the request.', more);
  return new ApiError('failed', 'The server failed (status ' + r.status + ').', more);
}

// Server-sent events: text in pieces of any size in, the data of complete events out.
class EventParser {
  constructor() {
    this.rest = '';
    this.data = [];
  }

  push(text) {
    const events = [];
    let start = 0;
    text = this.rest + text;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (c !== '\n' && c !== '\r') continue;
      if (c === '\r' && i + 1 === text.length) break;   // half of \r\n, perhaps
      this.line(text.slice(start, i), events);
      if (c === '\r' && text[i + 1] === '\n') i++;
      start = i + 1;
    }
    this.rest = text.slice(start);
    return events;
  }

  line(line, events) {
    if (line === '') {
      if (this.data.length) events.push(this.data.join('\n'));
      this.data = [];
    } else if (line.startsWith('data:')) {
      this.data.push(line.slice(line[5] === ' ' ? 6 : 5));
    }
  }
}

async function* events(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder(), parser = new EventParser();
  for (;;) {
    const { value, done } = await reader.read();
    yield* parser.push(done ? decoder.decode() + '\n' : decoder.decode(value, { stream: true }));
    if (done) return;
  }
}

// Streams one answer. take({ content, reasoning, calls, progress, usage, timings, finish }) is called for what comes, in any
// mixture.
async function streamChat(body, signal, take) {
  const r = await request('v1/chat/completions', { body, signal });
  let finished = false;
  try {
    for await (const data of events(r)) {
      if (data === '[DONE]') return;
      const c = JSON.parse(data);
      if (c.error)
        throw new ApiError('failed', 'The server gave up on the answer.', { detail: String(c.error.message ?? '') });
      const choice = c.choices?.[0];
      const d = choice?.delta ?? {};
      if (choice?.finish_reason) finished = true;
      take({ content: d.content ?? '', reasoning: d.reasoning_content ?? d.reasoning ?? '',
        calls: d.tool_calls ?? [], progress: c.prompt_progress, usage: c.usage, timings: c.timings,
        finish: choice?.finish_reason });
    }
  } catch (e) {
    if (e.name === 'AbortError' || e instanceof ApiError) throw e;
    if (!finished) throw new ApiError('broke', 'The connection broke off.');
  }
  if (!finished) throw new ApiError('broke', 'The answer broke off.');
}
