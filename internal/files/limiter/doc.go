// Package limiter bounds concurrent operations, in total and per organisation.
package limiter
