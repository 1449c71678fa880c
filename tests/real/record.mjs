// tests/real/record.mjs URL OUT FOLDER: a proxy before a server, which prints its port and keeps what clients send in
// OUT-0.json, OUT-1.json and so on: {"path", "headers", "body"}. Texts are theirs: of what is longer than a line the beginning is kept and
// words of no meaning stand for the rest, up to some; FOLDER is /work, ids that tell of a machine are 0.
import { createServer, request } from 'node:http'
import { writeFileSync } from 'node:fs'

const [to, out, folder] = process.argv.slice(2)
const LINE = 90, BEGINNING = 50, SOME = 400
let n = 0
const short = (s) => s.length <= LINE ? s : s.slice(0, BEGINNING) + ' word'.repeat((Math.min(s.length, SOME) - BEGINNING) / 5)
const nobody = (s) => s.replaceAll(folder, '/work').replace(/[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '0')
function scrub(v) {
  if (typeof v === 'string') return short(nobody(v))
  if (Array.isArray(v)) return v.map(scrub)
  if (v && typeof v === 'object') return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, scrub(x)]))
  return v
}
createServer((q, a) => {
  const body = []
  q.on('data', (d) => body.push(d))
  q.on('end', () => {
    const target = new URL(q.url, to)
    if (q.method === 'POST') {
      const headers = Object.fromEntries(['anthropic-version', 'anthropic-beta', 'accept'].filter((h) => q.headers[h]).map((h) => [h, q.headers[h]]))
      const kept = { path: q.url, headers, body: scrub(JSON.parse(Buffer.concat(body))) }
      writeFileSync(`${out}-${n++}.json`, JSON.stringify(kept, null, 1) + '\n')
    }
    const r = request(target, { method: q.method, headers: { ...q.headers, host: target.host } }, (s) => {
      a.writeHead(s.statusCode, s.headers)
      s.pipe(a)
    })
    r.on('error', () => a.destroy())
    r.end(Buffer.concat(body))
  })
}).listen(0, '127.0.0.1', function () { console.log(this.address().port) })
