// tests/real/clients.mjs URL KEY: npm packages that are not ours against a running `zinc serve` that asks for KEY. A line for
// each check; exit 1 where one missed. The packages lie below $CLIENTS_DIR.
//
//     openai                     chat and responses: streams by their helpers, zod's forms and tools, loops of tools, embeddings
//     @anthropic-ai/sdk          messages, streams and their helper, zod's tools in its loop, tokens, errors by class
//     ollama                     chat, generate, streams, tools, forms, list, show
//     ai                         by @ai-sdk/openai-compatible and @ai-sdk/anthropic: text, streams, objects, tools in steps
//     @langchain/openai          invoke, stream, tools, structured output, by chats and by responses
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

for (const v of ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY']) process.env[v] = 'not-this-one'
process.env.LANGSMITH_TRACING = process.env.LANGCHAIN_TRACING_V2 = 'false'
globalThis.AI_SDK_LOG_WARNINGS = false
const require = createRequire(path.resolve(process.env.CLIENTS_DIR, 'x.js'))
const load = (name) => import(pathToFileURL(require.resolve(name)))
const [url, key] = process.argv.slice(2)
const { z } = require('zod')
const question = 'What is 2 + 3?'
const hello = [{ role: 'user', content: question }]
const Place = z.object({ city: z.enum(['Rome', 'Oslo']), days: z.number().int() })
const places = { type: 'object', properties: { city: { enum: ['Rome', 'Oslo'] } }, required: ['city'], additionalProperties: false }
const is_place = (v) => assert.ok(['Rome', 'Oslo'].includes(v.city), JSON.stringify(v))

let misses = 0
async function test(name, fn) {
  const start = Date.now()
  try {
    await fn()
    console.log(`  ok    ${name} (${Date.now() - start} ms)`)
  } catch (e) {
    misses++
    const at = /clients\.mjs:(\d+)/.exec(e.stack ?? '')?.[1]
    console.log(`MISS: ${name}: line ${at}: ${String(e.stack ?? e).split('\n').slice(0, 12).join(' | ').slice(0, 1500)}`)
  }
}
async function gather(stream) {
  const all = []
  for await (const part of stream) all.push(part)
  return all
}
async function fails(type, status, fn) {
  const e = await Promise.resolve().then(fn).then(() => null, (e) => e)
  assert.ok(e instanceof type, `${e} in the place of ${type.name}`)
  assert.equal(e.status ?? e.status_code, status, String(e))
  return e
}

// ---- openai ----

const OpenAI = require('openai').default ?? require('openai')
const { zodResponseFormat, zodTextFormat, zodFunction, zodResponsesFunction } = require('openai/helpers/zod')
const gpt = new OpenAI({ baseURL: url + '/v1', apiKey: key, maxRetries: 0, timeout: 600000 })
const model = (await gpt.models.list()).data[0].id
const chat = { model, messages: hello, max_tokens: 24, temperature: 0, reasoning_effort: 'none' }
const respond = { model, input: question, max_output_tokens: 24, temperature: 0, reasoning: { effort: 'none' } }

await test('openai: a chat and its streaming helper', async () => {
  const whole = await gpt.chat.completions.create(chat)
  const runner = gpt.chat.completions.stream(chat)
  let text = ''
  runner.on('content', (delta) => (text += delta))
  const final = await runner.finalChatCompletion()
  assert.equal(text, whole.choices[0].message.content)
  assert.equal(final.choices[0].message.content, text)
  assert.ok(text.length > 0 && whole.usage.completion_tokens > 0)
})

await test('openai: forms by zod, of chats and responses', async () => {
  const a = await gpt.chat.completions.parse({ ...chat, max_tokens: 200, response_format: zodResponseFormat(Place, 'place') })
  is_place(a.choices[0].message.parsed)
  const b = await gpt.responses.parse({ ...respond, max_output_tokens: 200, text: { format: zodTextFormat(Place, 'place') } })
  assert.deepEqual(b.output_parsed, a.choices[0].message.parsed)
})

await test('openai: tools by zod, and the loop that runs them', async () => {
  const tool = zodFunction({ name: 'weather', description: 'Tells the weather', parameters: Place })
  const forced = { ...chat, max_tokens: 200, tools: [tool], tool_choice: 'required' }
  const call = (await gpt.chat.completions.parse(forced)).choices[0].message.tool_calls[0]
  is_place(call.function.parsed_arguments)
  const streamed = await gpt.chat.completions.stream(forced).finalChatCompletion()
  assert.deepEqual(streamed.choices[0].message.tool_calls[0].function.parsed_arguments, call.function.parsed_arguments)
  let ran = 0
  const runner = gpt.chat.completions.runTools({
    ...forced, tool_choice: { type: 'function', function: { name: 'weather' } }, stream: true,
    tools: [{ type: 'function', function: { name: 'weather', description: 'w', parameters: places, parse: JSON.parse,
      function: (v) => (ran++, is_place(v), 'sunny') } }] })
  await runner.done()
  assert.equal(ran, 1)
})

await test('openai: responses, a stream by its helper', async () => {
  const whole = await gpt.responses.create(respond)
  const stream = gpt.responses.stream(respond)
  const events = await gather(stream)
  const final = await stream.finalResponse()
  assert.equal(final.output_text, whole.output_text)
  assert.equal(events.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta).join(''), whole.output_text)
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i))
})

await test('openai: responses with tools, and going on', async () => {
  const tools = [zodResponsesFunction({ name: 'weather', parameters: Place })]
  const r = await gpt.responses.parse({ ...respond, max_output_tokens: 200, tools, tool_choice: 'required' })
  const call = r.output.find((o) => o.type === 'function_call')
  is_place(call.parsed_arguments)
  const result = { type: 'function_call_output', call_id: call.call_id, output: 'sunny' }
  const on = await gpt.responses.create({ ...respond, tools, input: [result], previous_response_id: r.id })
  const spelled = await gpt.responses.create({ ...respond, tools, input: [...hello, ...r.output, result] })
  assert.equal(on.output_text, spelled.output_text)
})

await test('openai: errors by class', async () => {
  await fails(OpenAI.AuthenticationError, 401, () => gpt.withOptions({ apiKey: 'x' }).chat.completions.create(chat))
  const e = await fails(OpenAI.BadRequestError, 400, () => gpt.chat.completions.create({ ...chat, messages: [{ role: 'user', content: 'word '.repeat(9000) }] }))
  assert.equal(e.code, 'context_length_exceeded')
  const none = await gpt.embeddings.create({ model, input: 'a' }).then((r) => r.data[0].embedding, (e) => e)
  assert.ok(Array.isArray(none) || (none.status === 400 && /embedding model/.test(none.message)), String(none))
})

// ---- @anthropic-ai/sdk ----

const { Anthropic } = await load('@anthropic-ai/sdk')
const { betaZodTool } = await load('@anthropic-ai/sdk/helpers/beta/zod')
const claude = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 600000 })
const say = { model, messages: hello, max_tokens: 24, temperature: 0 }

await test('anthropic: a message, its stream and helper, its tokens', async () => {
  const whole = await claude.messages.create({ ...say, system: 'Be brief.' })
  await new Promise((go) => setTimeout(go, 300)) // what is kept of a request is kept a moment after its answer
  const stream = claude.messages.stream({ ...say, system: 'Be brief.' })
  let text = ''
  stream.on('text', (delta) => (text += delta))
  const final = await stream.finalMessage()
  assert.equal(text, whole.content[0].text)
  assert.deepEqual([final.stop_reason, final.usage.output_tokens], [whole.stop_reason, whole.usage.output_tokens])
  assert.ok(final.usage.cache_read_input_tokens > 0)
  const n = await claude.messages.countTokens({ model, messages: hello, system: 'Be brief.' })
  assert.equal(n.input_tokens, final.usage.input_tokens + final.usage.cache_read_input_tokens)
})

await test('anthropic: thinking comes in blocks', async () => {
  const think = { ...say, max_tokens: 300, thinking: { type: 'enabled', budget_tokens: 1024 } }
  const m = await claude.messages.stream(think).finalMessage()
  assert.equal(m.content[0].type, 'thinking')
  assert.ok(m.content[0].thinking.length > 0)
})

await test('anthropic: tools by zod, and the loop that runs them', async () => {
  const asked = []
  const weather = betaZodTool({ name: 'weather', description: 'Tells the weather', inputSchema: Place,
    run: (v) => (asked.push(v), 'sunny') })
  const runner = claude.beta.messages.toolRunner({ ...say, max_tokens: 200, tools: [weather], tool_choice: { type: 'any' },
    max_iterations: 2, stream: true })
  let n = 0
  for await (const stream of runner) n += (await stream.finalMessage()).content.filter((b) => b.type === 'tool_use').length
  assert.ok(asked.length >= 1 && n >= 1, `${asked.length} asked, ${n} calls`)
  asked.forEach(is_place)
})

await test('anthropic: errors by class', async () => {
  await fails(Anthropic.AuthenticationError, 401, () => claude.withOptions({ apiKey: 'x' }).messages.create(say))
  const e = await fails(Anthropic.BadRequestError, 400, () => claude.messages.create({ ...say, messages: [] }))
  assert.equal(e.error.error.type, 'invalid_request_error')
})

// ---- ollama ----

const { Ollama } = await load('ollama')
const llama = new Ollama({ host: url, headers: { Authorization: 'Bearer ' + key } })
const options = { temperature: 0, num_predict: 24 }

await test('ollama: chat, generate, streams, forms, tools', async () => {
  const ask = { model, messages: hello, think: false, options }
  const whole = await llama.chat(ask)
  const parts = await gather(await llama.chat({ ...ask, stream: true }))
  assert.equal(parts.map((p) => p.message.content).join(''), whole.message.content)
  assert.ok(parts.at(-1).done && whole.eval_count > 0)
  const text = await llama.generate({ model, prompt: question, think: false, options })
  assert.equal(text.response, whole.message.content)
  is_place(JSON.parse((await llama.chat({ ...ask, format: z.toJSONSchema(Place), options: { ...options, num_predict: 200 } })).message.content))
  const tools = [{ type: 'function', function: { name: 'weather', description: 'w', parameters: places } }]
  const history = [...hello, { role: 'assistant', content: '', tool_calls: [{ function: { name: 'weather', arguments: { city: 'Rome' } } }] },
    { role: 'tool', tool_name: 'weather', content: 'sunny' }]
  assert.ok((await llama.chat({ ...ask, messages: history, tools })).done)
})

await test('ollama: what is served, errors', async () => {
  assert.deepEqual((await llama.list()).models.map((m) => m.model), [model])
  assert.ok((await llama.show({ model })).capabilities.includes('tools'))
  const e = await llama.show({ model: 'another' }).then(() => null, (e) => e)
  assert.equal(e?.status_code, 404)
})

// ---- ai, by two providers ----

const { generateText, streamText, generateObject, streamObject, tool, stepCountIs } = await load('ai')
const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible')
const { createAnthropic } = await load('@ai-sdk/anthropic')
const providers = {
  'openai-compatible': createOpenAICompatible({ name: 'zinc', baseURL: url + '/v1', apiKey: key, includeUsage: true, supportsStructuredOutputs: true })(model),
  anthropic: createAnthropic({ baseURL: url + '/v1', apiKey: key })(model),
}
for (const [name, of] of Object.entries(providers)) {
  const providerOptions = { zinc: { reasoningEffort: 'none' } }
  const ask = { model: of, prompt: question, temperature: 0, maxOutputTokens: 24, maxRetries: 0, providerOptions }
  await test(`ai, ${name}: text and a stream`, async () => {
    const whole = await generateText(ask)
    const stream = streamText(ask)
    const text = (await gather(stream.textStream)).join('')
    assert.equal(text, whole.text)
    assert.ok(text.length > 0 && whole.usage.outputTokens > 0 && (await stream.usage).outputTokens === whole.usage.outputTokens)
  })
  await test(`ai, ${name}: objects`, async () => {
    is_place((await generateObject({ ...ask, maxOutputTokens: 200, schema: Place })).object)
    const stream = streamObject({ ...ask, maxOutputTokens: 200, schema: Place })
    await gather(stream.partialObjectStream)
    is_place(await stream.object)
  })
  await test(`ai, ${name}: tools in steps`, async () => {
    const asked = []
    const weather = tool({ description: 'Tells the weather', inputSchema: Place, execute: async (v) => (asked.push(v), 'sunny') })
    const stream = streamText({ ...ask, maxOutputTokens: 200, tools: { weather }, stopWhen: stepCountIs(2),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber ? 'none' : 'required' }) })
    await stream.consumeStream()
    const steps = await stream.steps
    assert.deepEqual([asked.length, steps.length, steps[0].finishReason], [1, 2, 'tool-calls'], JSON.stringify(steps.map((s) => s.content)))
    is_place(asked[0])
    assert.equal(steps[1].toolCalls.length, 0)
  })
}

// ---- @langchain/openai ----

const { ChatOpenAI } = await load('@langchain/openai')
for (const useResponsesApi of [false, true]) {
  const by = useResponsesApi ? 'responses' : 'chats'
  const of = (more) => new ChatOpenAI({ model, apiKey: key, configuration: { baseURL: url + '/v1' }, temperature: 0, maxRetries: 0,
    maxTokens: 200, useResponsesApi, ...(useResponsesApi ? { reasoning: { effort: 'none' } } : { modelKwargs: { enable_thinking: false } }), ...more })
  await test(`langchain, ${by}: invoke and stream`, async () => {
    const whole = await of({ maxTokens: 24 }).invoke(question)
    const parts = await gather(await of({ maxTokens: 24 }).stream(question))
    assert.equal(parts.map((p) => p.text).join(''), whole.text)
    assert.ok(whole.text.length > 0 && whole.usage_metadata.output_tokens > 0)
  })
  await test(`langchain, ${by}: structured output and tools`, async () => {
    is_place(await of().withStructuredOutput(Place, { name: 'place' }).invoke(question))
    const tools = [{ type: 'function', function: { name: 'weather', description: 'w', parameters: places } }]
    if (!useResponsesApi) // by responses the package does not pass tool_choice on
      is_place((await of().bindTools(tools, { tool_choice: 'required' }).invoke(question)).tool_calls[0].args)
    const call = { id: 'call_1', name: 'weather', args: { city: 'Rome' }, type: 'tool_call' }
    const history = [['human', question], { role: 'assistant', content: '', tool_calls: [call] }, { role: 'tool', content: 'sunny', tool_call_id: 'call_1' }]
    const answer = await of().bindTools(tools).invoke(history)
    assert.ok(answer.text || answer.tool_calls.length)
  })
}
process.exit(misses > 0 ? 1 : 0)
