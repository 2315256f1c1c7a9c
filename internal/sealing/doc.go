// Package sealing encrypts secrets at rest.
//
// A Sealer encrypts small values with AES-256-GCM under the keys of an
// installation, which LoadOrCreateKeys reads from a file that only its owner
// can read. Data keys of organisations are in package keyring.
package sealing
