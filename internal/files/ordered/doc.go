// Package ordered processes jobs concurrently and passes them on in their original
// order.
package ordered
