// Package ordered processes jobs concurrently and passes on the results in
// order.
package ordered
