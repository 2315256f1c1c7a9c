// Lists a tar in Node and in browsers alike. Names are bytes, shown as hex, for
// they need not be text; times are nanoseconds, shown as decimal numbers.

const block = 512

// Source gives a stream of byte arrays in the pieces that are asked for.
class Source {
  #chunks
  #chunk = new Uint8Array(0)

  constructor(stream) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  // #fill makes sure that there is a byte, unless the stream has ended.
  async #fill() {
    while (this.#chunk.length === 0) {
      const { value, done } = await this.#chunks.next()
      if (done) return false
      this.#chunk = value
    }
    return true
  }

  async take(n) {
    const out = new Uint8Array(n)
    for (let have = 0; have < n;) {
      if (!(await this.#fill())) throw new Error(`the tar ends ${n - have} bytes early`)
      const part = this.#chunk.subarray(0, n - have)
      out.set(part, have)
      have += part.length
      this.#chunk = this.#chunk.subarray(part.length)
    }
    return out
  }

  // onlyZeros reads to the end.
  async onlyZeros() {
    while (await this.#fill()) {
      if (!isZero(this.#chunk)) throw new Error('something follows the end of the tar')
      this.#chunk = new Uint8Array(0)
    }
  }
}

const isZero = bytes => bytes.every(b => b === 0)
const ascii = bytes => String.fromCharCode(...bytes)
const hex = bytes => Array.from(bytes, b => b.toString(16).padStart(2, '0')).join('')

function untilNUL(field) {
  const end = field.indexOf(0)
  return end < 0 ? field : field.subarray(0, end)
}

function octal(field) {
  const digits = ascii(untilNUL(field)).trim()
  if (!/^[0-7]+$/.test(digits)) throw new Error(`'${digits}' is no octal number`)
  return parseInt(digits, 8)
}

// nanoseconds of a decimal number of seconds, which may be negative.
function nanoseconds(text) {
  const parts = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(text)
  if (!parts) throw new Error(`'${text}' is no time`)
  const n = BigInt(parts[2]) * 1000000000n + BigInt((parts[3] ?? '').padEnd(9, '0'))
  return parts[1] ? -n : n
}

// header reads a plain header, whose checksum must hold.
function header(b) {
  const spaced = b.slice()
  spaced.fill(0x20, 148, 156)
  if (octal(b.subarray(148, 156)) !== spaced.reduce((sum, c) => sum + c, 0)) throw new Error('the checksum of a header is wrong')
  const name = untilNUL(b.subarray(0, 100))
  const prefix = untilNUL(b.subarray(345, 500))
  return {
    path: prefix.length ? Uint8Array.of(...prefix, 0x2f, ...name) : name,
    mode: octal(b.subarray(100, 108)),
    size: octal(b.subarray(124, 136)),
    mtime: BigInt(octal(b.subarray(136, 148))) * 1000000000n,
    type: ascii(b.subarray(156, 157)),
    target: untilNUL(b.subarray(157, 257)),
  }
}

// records reads an extended header: "LENGTH KEY=VALUE\n" again and again.
function records(bytes) {
  const found = new Map()
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(0x20, at)
    const equals = bytes.indexOf(0x3d, space)
    const length = Number(ascii(bytes.subarray(at, space)))
    if (!(length > 0) || space < 0 || equals < 0 || bytes[at + length - 1] !== 0x0a) throw new Error('an extended header is broken')
    found.set(ascii(bytes.subarray(space + 1, equals)), bytes.subarray(equals + 1, at + length - 1))
    at += length
  }
  return found
}

// extend lets records replace what a plain header says.
function extend(h, more) {
  for (const [key, value] of more) {
    switch (key) {
      case 'path': h.path = value; break
      case 'linkpath': h.target = value; break
      case 'size': h.size = Number(ascii(value)); break
      case 'mtime': h.mtime = nanoseconds(ascii(value)); break
      case 'hdrcharset': break // names stay the bytes that they are
      default: throw new Error(`an extended header says '${key}'`)
    }
  }
}

const kinds = { 0: 'file', 2: 'symlink', 5: 'dir' }

async function look(h, body) {
  const kind = kinds[h.type]
  if (!kind) throw new Error(`an entry has the type '${h.type}'`)
  const slashed = h.path[h.path.length - 1] === 0x2f
  if (slashed !== (kind === 'dir')) throw new Error(`the name of a ${kind} is ${hex(h.path)}`)
  return {
    path: hex(slashed ? h.path.subarray(0, -1) : h.path), kind, mode: h.mode, mtime: h.mtime.toString(), size: h.size,
    target: kind === 'symlink' ? hex(h.target) : '',
    sha256: kind === 'file' ? hex(new Uint8Array(await crypto.subtle.digest('SHA-256', body))) : '',
  }
}

// list gives all entries of a tar that comes as an async iterable of byte arrays.
export async function list(stream) {
  const source = new Source(stream)
  const all = []
  let more = new Map()
  for (;;) {
    const first = await source.take(block)
    if (isZero(first)) break
    const h = header(first)
    extend(h, more)
    const body = await source.take(h.size)
    if (!isZero(await source.take((block - h.size % block) % block))) throw new Error('a body is not filled up with zeros')
    more = h.type === 'x' ? records(body) : new Map()
    if (h.type !== 'x') all.push(await look(h, body))
  }
  if (more.size || !isZero(await source.take(block))) throw new Error('the tar has no proper end')
  await source.onlyZeros()
  return all
}
