// Package limiter bounds concurrent operations, in all and per organisation.
package limiter
