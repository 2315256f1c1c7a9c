// Package check verifies stored snapshots and repairs damaged packs.
package check
