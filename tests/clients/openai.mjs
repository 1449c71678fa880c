// tests/clients/openai.mjs URL KEY: the openai npm package against a running `zinc serve` with --slots 2 --queue 4
// --max-body 1. Prints a line for each check; exit 1 when one missed. The package lies in build/clients.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const require = createRequire(path.resolve('build/clients/x.js'))
const OpenAI = require('openai').default ?? require('openai')
const [url, key] = process.argv.slice(2)
const client = new OpenAI({ baseURL: url + '/v1', apiKey: key, maxRetries: 0, timeout: 600000 })
const model = 'zinc'
const hello = [{ role: 'user', content: 'Hello! How are you?' }]
const story = [{ role: 'user', content: 'Tell me a story.' }] // has many answers
// Answers without reasoning are shorter; the tests that are about reasoning say so.
const plain = { model, messages: hello, max_tokens: 24, temperature: 0, enable_thinking: false }

let misses = 0
async function test(name, fn) {
  const start = Date.now()
  try {
    await fn()
    console.log(`  ok    ${name} (${Date.now() - start} ms)`)
  } catch (e) {
    misses++
    const at = /openai\.mjs:(\d+)/.exec(e.stack ?? '')?.[1]
    console.log(`MISS: ${name}: line ${at}: ${String(e.message ?? e).split('\n').slice(0, 12).join(' | ')}`)
  }
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
const ask = (more) => client.chat.completions.create({ ...plain, ...more })

async function metric(name) {
  const text = await (await fetch(url + '/metrics', { headers: { authorization: `Bearer ${key}` } })).text()
  const line = text.split('\n').find((l) => l.startsWith(name + ' '))
  assert.ok(line, `no ${name} in /metrics`)
  return Number(line.split(' ')[1])
}

// Waits go on for as long as a slow machine may need: only what never comes takes them to their end.
const patience = 300000
async function until(what, f) {
  for (const end = Date.now() + patience; !(await f()); await sleep(20)) assert.ok(Date.now() < end, `waited in vain for: ${what}`)
}
async function becomes(name, value) {
  let now
  try {
    await until(name, async () => (now = await metric(name)) === value)
  } catch (e) {
    throw new Error(`${name} is ${now}, expected ${value}: ${e.message}`)
  }
}

// The error that fn ends with, which must be of this class and status.
async function fails(type, status, fn) {
  let error
  try {
    await fn()
  } catch (e) {
    error = e
  }
  assert.ok(error, `expected ${type.name}, but it went well`)
  assert.ok(error instanceof type, `${error.constructor.name} (${error.message}) instead of ${type.name}`)
  assert.equal(error.status, status)
  if (status) assert.equal(typeof error.error?.message, 'string', 'an error without a message')
  return error
}

// ---- JSON schema: as much of it as the tests use; returns what is wrong, or null ----

function violates(value, schema, at = '$') {
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
  if (schema.enum && !schema.enum.some((v) => JSON.stringify(v) === JSON.stringify(value))) return `${at}: not in the enum`
  if (schema.type === 'integer' ? !Number.isInteger(value) : schema.type && schema.type !== type)
    return `${at}: ${type} instead of ${schema.type}`
  if (schema.minimum !== undefined && value < schema.minimum) return `${at}: ${value} < ${schema.minimum}`
  if (schema.maximum !== undefined && value > schema.maximum) return `${at}: ${value} > ${schema.maximum}`
  if (type === 'string' && [...value].length > (schema.maxLength ?? Infinity)) return `${at}: too long`
  if (type === 'array') {
    if (value.length > (schema.maxItems ?? Infinity) || value.length < (schema.minItems ?? 0)) return `${at}: ${value.length} items`
    for (const [i, v] of value.entries()) {
      const why = schema.items && violates(v, schema.items, `${at}[${i}]`)
      if (why) return why
    }
  }
  if (type === 'object') {
    for (const name of schema.required ?? []) if (!(name in value)) return `${at}: no ${name}`
    for (const [name, v] of Object.entries(value)) {
      const s = schema.properties?.[name]
      if (!s && schema.additionalProperties === false) return `${at}: ${name} is not allowed`
      const why = s && violates(v, s, `${at}.${name}`)
      if (why) return why
    }
  }
  return null
}

function follows(text, schema) {
  let value
  try {
    value = JSON.parse(text)
  } catch (e) {
    assert.fail(`not JSON: ${text.slice(0, 200)}`)
  }
  assert.equal(violates(value, schema), null, text.slice(0, 200))
  return value
}

const person = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    colour: { type: 'string', enum: ['red', 'green', 'blue'] },
    sizes: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 99 }, minItems: 1, maxItems: 3 },
    member: { type: 'boolean' },
  },
  required: ['name', 'age', 'colour', 'sizes', 'member'],
  additionalProperties: false,
}
const place = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 16 }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
  required: ['city', 'unit'],
  additionalProperties: false,
}
const clock = { type: 'object', properties: { hour: { type: 'integer', minimum: 0, maximum: 23 } }, required: ['hour'], additionalProperties: false }
const tools = [
  { type: 'function', function: { name: 'get_weather', description: 'The weather in a city', parameters: place } },
  { type: 'function', function: { name: 'set_alarm', description: 'Sets an alarm', parameters: clock } },
]
const schema_of = { get_weather: place, set_alarm: clock }
const weather = { messages: [{ role: 'user', content: 'What is the weather in Paris?' }], tools, max_tokens: 400 }

function check_calls(message, finish) {
  assert.equal(finish, 'tool_calls')
  assert.ok(message.tool_calls?.length >= 1, 'no calls')
  const ids = new Set()
  for (const call of message.tool_calls) {
    assert.equal(call.type, 'function')
    assert.ok(call.id && !ids.has(call.id), 'ids differ')
    ids.add(call.id)
    follows(call.function.arguments, schema_of[call.function.name] ?? assert.fail(`unknown function ${call.function.name}`))
  }
}

// ---- chat ----

function check_usage(u) {
  assert.ok(u.prompt_tokens > 0 && u.completion_tokens > 0)
  assert.equal(u.total_tokens, u.prompt_tokens + u.completion_tokens)
}

await test('models are listed', async () => {
  const list = await client.models.list()
  assert.equal(list.data.length, 1)
  assert.equal(list.data[0].object, 'model')
  const one = await client.models.retrieve(list.data[0].id)
  assert.equal(one.id, list.data[0].id)
})

let whole
await test('chat', async () => {
  whole = await ask()
  assert.equal(whole.object, 'chat.completion')
  assert.match(whole.id, /^chatcmpl-/)
  assert.ok(Math.abs(whole.created - Date.now() / 1000) < 600)
  const [c] = whole.choices
  assert.equal(c.index, 0)
  assert.equal(c.message.role, 'assistant')
  assert.ok(c.message.content.length > 0)
  assert.ok(['stop', 'length'].includes(c.finish_reason))
  assert.ok(!c.message.content.includes('<|'), 'control tokens are not text')
  check_usage(whole.usage)
})

await test('a stream says the same, in pieces', async () => {
  const stream = await ask({ stream: true, stream_options: { include_usage: true } })
  let text = '', finish, usage, pieces = 0, role
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk')
    if (chunk.usage) usage = chunk.usage
    const [c] = chunk.choices
    if (!c) continue
    role ??= c.delta.role
    if (c.delta.content) (text += c.delta.content), pieces++
    finish = c.finish_reason ?? finish
  }
  assert.equal(role, 'assistant')
  assert.equal(text, whole.choices[0].message.content)
  assert.equal(finish, whole.choices[0].finish_reason)
  assert.ok(pieces >= 1, `${pieces} pieces`) // text that waits while others work goes out together
  check_usage(usage)
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens)
})

await test('no usage in a stream that does not ask for it', async () => {
  for await (const chunk of await ask({ stream: true, max_tokens: 2 })) assert.ok(!chunk.usage && chunk.choices.length === 1)
})

await test("the client's stream helper puts it together", async () => {
  const end = await client.chat.completions.stream(plain).finalChatCompletion()
  assert.equal(end.choices[0].message.content, whole.choices[0].message.content)
})

await test('reasoning apart from the answer', async () => {
  const a = await ask({ enable_thinking: true, max_tokens: 200 })
  const m = a.choices[0].message
  assert.equal(typeof m.reasoning_content, 'string')
  assert.ok(!(m.content ?? '').includes('</think>') && !m.reasoning_content.includes('</think>'))
  const used = a.usage.completion_tokens_details.reasoning_tokens
  assert.ok(used > 0 && used <= a.usage.completion_tokens)
  let reasoning = '', text = ''
  for await (const chunk of await ask({ enable_thinking: true, max_tokens: 200, stream: true })) {
    reasoning += chunk.choices[0].delta.reasoning_content ?? ''
    text += chunk.choices[0].delta.content ?? ''
  }
  assert.equal(reasoning, m.reasoning_content)
  assert.equal(text, m.content ?? '')
  const none = await ask({ chat_template_kwargs: { enable_thinking: false }, enable_thinking: undefined })
  assert.ok(!none.choices[0].message.reasoning_content)
})

await test('a conversation goes on', async () => {
  const a = await ask({ messages: [{ role: 'system', content: 'Be brief.' }, ...hello, whole.choices[0].message, { role: 'user', content: [{ type: 'text', text: 'And now?' }] }] })
  assert.ok(a.choices[0].message.content.length > 0)
  assert.ok(a.usage.prompt_tokens > whole.usage.prompt_tokens)
})

await test('n = 2: each choice as if it were alone', async () => {
  const two = await ask({ messages: story, n: 2, temperature: 1.5, seed: 11 })
  assert.deepEqual(two.choices.map((c) => c.index).sort(), [0, 1])
  const by = (i) => two.choices.find((c) => c.index === i).message.content
  assert.notEqual(by(0), by(1))
  const texts = ['', '']
  for await (const chunk of await ask({ messages: story, n: 2, temperature: 1.5, seed: 11, stream: true }))
    for (const c of chunk.choices) texts[c.index] += c.delta.content ?? ''
  assert.deepEqual(texts, [by(0), by(1)])
})

await test('a seed repeats', async () => {
  const draw = async (seed) => (await ask({ messages: story, temperature: 1.5, seed })).choices[0].message.content
  const first = await draw(5)
  assert.equal(await draw(5), first)
  const others = await Promise.all([6, 7, 8].map(draw))
  assert.ok(others.some((t) => t !== first), 'no seed makes a difference')
})

await test('stop strings end the answer and are no part of it', async () => {
  const text = whole.choices[0].message.content
  const stop = text.slice(Math.floor(text.length / 3), Math.floor(text.length / 3) + 3)
  const cut = text.slice(0, text.indexOf(stop))
  const a = await ask({ stop: ['no such thing', stop] })
  assert.equal(a.choices[0].message.content ?? '', cut)
  assert.equal(a.choices[0].finish_reason, 'stop')
  let streamed = ''
  for await (const chunk of await ask({ stop, stream: true })) streamed += chunk.choices[0].delta.content ?? ''
  assert.equal(streamed, cut)
})

await test('max_tokens and max_completion_tokens', async () => {
  for (const limit of [{ max_tokens: 3 }, { max_tokens: undefined, max_completion_tokens: 3 }]) {
    const a = await ask(limit)
    assert.equal(a.usage.completion_tokens, 3)
    assert.equal(a.choices[0].finish_reason, 'length')
  }
})

await test('logprobs', async () => {
  const a = await ask({ logprobs: true, top_logprobs: 3, max_tokens: 8 })
  const tokens = a.choices[0].logprobs.content
  const text = new TextDecoder().decode(Uint8Array.from(tokens.flatMap((t) => t.bytes ?? [])))
  assert.ok(text.startsWith(a.choices[0].message.content), 'the tokens are the text')
  for (const t of tokens) {
    assert.ok(t.logprob <= 0 && t.top_logprobs.length === 3)
    assert.equal(t.top_logprobs[0].token, t.token, 'greedy: the best one')
    for (let i = 1; i < 3; i++) assert.ok(t.top_logprobs[i].logprob <= t.top_logprobs[i - 1].logprob)
  }
  let n = 0
  for await (const chunk of await ask({ logprobs: true, max_tokens: 8, stream: true })) n += chunk.choices[0].logprobs?.content?.length ?? 0
  assert.equal(n, tokens.length)
})

await test('logit_bias', async () => {
  const { tokens } = await (await fetch(url + '/tokenize', { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: JSON.stringify({ content: ' river' }) })).json()
  const a = await ask({ logit_bias: { [tokens[0]]: 100 }, max_tokens: 4 })
  const logged = await ask({ logit_bias: { [tokens[0]]: 100 }, max_tokens: 4, logprobs: true })
  assert.equal(a.choices[0].message.content, logged.choices[0].message.content)
  assert.equal(new Set(logged.choices[0].logprobs.content.map((t) => t.token)).size, 1)
})

// ---- constrained answers ----

await test('json_schema', async () => {
  const response_format = { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: person } }
  for (const more of [{}, { temperature: 1.5, seed: 3 }, { temperature: 1, seed: 4, enable_thinking: true, thinking_budget: 40 }]) {
    const a = await ask({ response_format, max_tokens: 600, ...more })
    assert.equal(a.choices[0].finish_reason, 'stop')
    follows(a.choices[0].message.content, person)
  }
  let text = ''
  for await (const chunk of await ask({ response_format, max_tokens: 600, stream: true })) text += chunk.choices[0].delta.content ?? ''
  follows(text, person)
})

await test("the client's parse helper takes it", async () => {
  const a = await client.chat.completions.parse({ ...plain, max_tokens: 600, response_format: { type: 'json_schema', json_schema: { name: 'place', strict: true, schema: place } } })
  assert.equal(violates(JSON.parse(a.choices[0].message.content), place), null)
})

await test('json_object', async () => {
  const a = await ask({ response_format: { type: 'json_object' }, max_tokens: 900, temperature: 0.7, seed: 2 })
  const c = a.choices[0]
  if (c.finish_reason === 'stop') assert.equal(typeof JSON.parse(c.message.content), 'object')
  assert.match(c.message.content, /^\s*\{/)
})

await test('a grammar', async () => {
  const a = await ask({ grammar: 'root ::= ("yes" | "no") ("!" | "?")', max_tokens: 20 })
  assert.match(a.choices[0].message.content, /^(yes|no)[!?]$/)
})

// ---- tools ----

let called
await test('tools: required', async () => {
  const a = await ask({ ...weather, tool_choice: 'required' })
  check_calls(a.choices[0].message, a.choices[0].finish_reason)
  called = a.choices[0].message
})

await test('tools: by name', async () => {
  for (const name of ['set_alarm', 'get_weather']) {
    const a = await ask({ ...weather, tool_choice: { type: 'function', function: { name } }, temperature: 1, seed: 9 })
    check_calls(a.choices[0].message, a.choices[0].finish_reason)
    assert.deepEqual(new Set(a.choices[0].message.tool_calls.map((c) => c.function.name)), new Set([name]))
  }
})

await test('tools: auto and none', async () => {
  const auto = (await ask({ ...weather, max_tokens: 60 })).choices[0]
  if (auto.message.tool_calls?.length) check_calls(auto.message, auto.finish_reason)
  const none = (await ask({ ...weather, tool_choice: 'none', max_tokens: 30 })).choices[0]
  assert.ok(!none.message.tool_calls?.length)
  assert.ok(none.message.content.length > 0)
})

await test('tools: a stream of calls', async () => {
  const end = await client.chat.completions.stream({ ...plain, ...weather, tool_choice: 'required' }).finalChatCompletion()
  const c = end.choices[0]
  check_calls(c.message, c.finish_reason)
  assert.deepEqual(c.message.tool_calls.map((x) => x.function), called.tool_calls.map((x) => x.function))
})

await test('tools: one call only, and several', async () => {
  const one = await ask({ ...weather, tool_choice: 'required', parallel_tool_calls: false, temperature: 1, seed: 21 })
  assert.equal(one.choices[0].message.tool_calls.length, 1)
  const many = await ask({ ...weather, tool_choice: 'required', parallel_tool_calls: true, temperature: 1.3, seed: 21, max_tokens: 900 })
  if (many.choices[0].finish_reason === 'tool_calls') check_calls(many.choices[0].message, 'tool_calls')
})

await test('tools: the result goes back', async () => {
  const results = called.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: '{"sky":"clear"}' }))
  const a = await ask({ messages: [...weather.messages, called, ...results], tools })
  assert.ok(a.choices[0].message.content?.length > 0 || a.choices[0].message.tool_calls?.length > 0)
})

// ---- the older endpoint ----

await test('completions', async () => {
  const o = { model, prompt: 'The old lamp', max_tokens: 12, temperature: 0 }
  const a = await client.completions.create({ ...o, logprobs: 2 })
  assert.equal(a.object, 'text_completion')
  assert.ok(a.choices[0].text.length > 0)
  const ended = a.choices[0].finish_reason === 'stop' ? 1 : 0 // by a token that is no text
  assert.equal(a.choices[0].logprobs.tokens.length, a.usage.completion_tokens - ended)
  let text = ''
  for await (const chunk of await client.completions.create({ ...o, stream: true })) text += chunk.choices[0]?.text ?? ''
  assert.equal(text, a.choices[0].text)
  const echo = await client.completions.create({ ...o, echo: true })
  assert.equal(echo.choices[0].text, 'The old lamp' + text)
  const batch = await client.completions.create({ ...o, prompt: ['The old lamp', 'A dog'] })
  assert.equal(batch.choices.length, 2)
  assert.equal(batch.choices.find((c) => c.index === 0).text, text)
})

// ---- many at once, and leaving ----

await test('four at once say what each says alone', async () => {
  const questions = ['Hello!', 'Tell me a story.', 'What is 2 + 2?', 'Name a colour.']
  const one = (q) => ask({ messages: [{ role: 'user', content: q }], temperature: 0.8, seed: 3 })
  const alone = []
  for (const q of questions) alone.push((await one(q)).choices[0].message.content)
  const together = (await Promise.all(questions.map(one))).map((a) => a.choices[0].message.content)
  assert.deepEqual(together, alone)
})

// One that leaves too early or too late, before the server began or after it ended, leaves once more.
async function cancels(leave) {
  await becomes('zinc_requests_running', 0)
  const before = await metric('zinc_requests_cancelled_total')
  for (let tries = 0; tries < 20 && (await metric('zinc_requests_cancelled_total')) === before; tries++) {
    await leave()
    await becomes('zinc_requests_running', 0)
  }
  assert.equal(await metric('zinc_requests_cancelled_total'), before + 1)
}

await test('an aborted stream stops the server', () => cancels(async () => {
  const stream = await ask({ stream: true, max_tokens: 3500, ignore_eos: true })
  let n = 0
  for await (const _ of stream) if (++n === 5) break // leaving the loop aborts
}))

await test('a request that is aborted while it waits for its answer stops the server', () => cancels(async () => {
  const control = new AbortController()
  const waiting = client.chat.completions.create({ ...plain, max_tokens: 3500, ignore_eos: true }, { signal: control.signal })
  waiting.catch(() => {})
  await becomes('zinc_requests_running', 1)
  control.abort()
  await fails(OpenAI.APIUserAbortError, undefined, () => waiting)
}))

// ---- errors ----

await test('400: what is wrong, and where', async () => {
  const wrong = [
    ['temperature', { temperature: 'hot' }], ['top_p', { top_p: 7 }], ['n', { n: 0 }], ['messages', { messages: [] }], ['stop', { stop: 5 }],
    ['response_format', { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'sheep' } } } }],
    ['tool_choice', { tools, tool_choice: { type: 'function', function: { name: 'unknown' } } }],
  ]
  for (const [param, more] of wrong) {
    const e = await fails(OpenAI.BadRequestError, 400, () => ask(more))
    assert.ok(e.param?.startsWith(param), `param is ${e.param} instead of ${param}`)
  }
})

await test('400: the context is too small', async () => {
  const e = await fails(OpenAI.BadRequestError, 400, () => ask({ messages: [{ role: 'user', content: 'word '.repeat(12000) }] }))
  assert.equal(e.code, 'context_length_exceeded')
})

await test('400: no embeddings', async () => {
  const e = await fails(OpenAI.BadRequestError, 400, () => client.embeddings.create({ model, input: 'hello' }))
  assert.equal(e.code, 'unsupported')
})

await test('401: a wrong key', async () => {
  const stranger = new OpenAI({ baseURL: url + '/v1', apiKey: 'wrong', maxRetries: 0 })
  await fails(OpenAI.AuthenticationError, 401, () => stranger.models.list())
})

await test('404: no such thing', async () => {
  await fails(OpenAI.NotFoundError, 404, () => client.get('/nothing'))
  await fails(OpenAI.NotFoundError, 404, () => client.models.retrieve('no-such-model'))
})

await test('405: the wrong method', async () => {
  await fails(OpenAI.APIError, 405, () => client.get('/chat/completions'))
})

await test('413: too much', async () => {
  await fails(OpenAI.APIError, 413, () => ask({ messages: [{ role: 'user', content: 'x'.repeat(1500000) }] }))
})

await test('408: a deadline', async () => {
  await fails(OpenAI.APIError, 408, () => ask({ max_tokens: 3500, ignore_eos: true, timeout: 0.05 }))
  await becomes('zinc_requests_running', 0)
})

await test("the client's own timeout", async () => {
  await fails(OpenAI.APIConnectionTimeoutError, undefined, () =>
    client.chat.completions.create({ ...plain, max_tokens: 3500, ignore_eos: true }, { timeout: 100 }))
  await becomes('zinc_requests_running', 0)
})

await test('429: the queue is full; who comes again is served', async () => {
  const control = new AbortController()
  const hold = async () => {
    while (!control.signal.aborted) {
      try {
        const long = { ...plain, max_tokens: 3500, ignore_eos: true, stream: true }
        for await (const _ of await client.chat.completions.create(long, { signal: control.signal }));
      } catch { // refused, or told to leave
        await sleep(20)
      }
    }
  }
  const held = Array.from({ length: 6 }, hold) // 2 run, 4 wait
  try {
    await becomes('zinc_requests_waiting', 4)
    let refused
    await until('a refusal', async () => {
      const answers = await Promise.allSettled(Array.from({ length: 6 }, () => ask({ max_tokens: 1 }))) // some may get in
      return (refused = answers.find((a) => a.status === 'rejected')?.reason)
    })
    assert.ok(refused instanceof OpenAI.RateLimitError, `nobody was refused: ${refused}`)
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers.get('retry-after')) >= 1)
    const patient = new OpenAI({ baseURL: url + '/v1', apiKey: key, maxRetries: 300 })
    const later = patient.chat.completions.create(plain)
    setTimeout(() => control.abort(), 300)
    assert.equal((await later).choices[0].message.content, whole.choices[0].message.content)
  } finally {
    control.abort()
  }
  await Promise.all(held)
  await becomes('zinc_requests_running', 0)
})

await test('nothing is left', async () => {
  await becomes('zinc_requests_waiting', 0)
  await becomes('zinc_slots_busy', 0)
  assert.equal(await metric('zinc_requests_failed_total'), 0)
})

console.log(misses ? `${misses} misses` : 'all well')
process.exit(misses ? 1 : 0)
