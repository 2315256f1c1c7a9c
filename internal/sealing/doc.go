// Package sealing encrypts secrets at rest.
//
// A Sealer encrypts small values with AES-256-GCM under the keys of the
// installation. LoadOrCreateKeys reads these keys from a file that only its owner
// can access. Package keyring manages the data keys of organisations.
package sealing
