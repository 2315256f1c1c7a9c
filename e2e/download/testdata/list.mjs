// Prints {FILE: its entries} of the tar.gz files that are its arguments.
import { createReadStream } from 'node:fs'
import { webcrypto } from 'node:crypto'
import { createGunzip } from 'node:zlib'
import { pipeline } from 'node:stream'
import { list } from './untar.mjs'

globalThis.crypto ??= webcrypto // older versions have it, but not there

const found = {}
for (const file of process.argv.slice(2)) {
  const tar = pipeline(createReadStream(file), createGunzip(), error => {
    if (error) tar.destroy(error)
  })
  found[file] = await list(tar)
}
process.stdout.write(JSON.stringify(found))
