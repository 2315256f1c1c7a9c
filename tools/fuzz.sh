#!/usr/bin/env bash
# Runs every fuzz test of the module for the given time.
set -euo pipefail
time="${1:-10s}"
grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	grep -o '^func Fuzz[A-Za-z0-9_]*' "$file" | while read -r _ name; do
		echo "== $name in $(dirname "$file")"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$(dirname "$file")"
	done
done
