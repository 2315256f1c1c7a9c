// Package lru provides a cache that keeps the most recently used values.
package lru
