// Package lru is a cache of the most recently used values.
package lru
