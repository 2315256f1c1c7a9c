// Package layers contains a test of the direction of imports. It has no other
// code.
package layers
