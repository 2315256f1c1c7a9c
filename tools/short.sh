#!/usr/bin/env bash
# Runs the tests of the inner loop and prints the tests that it left out. It needs
# neither root nor the programs that `make deps` installs.
set -euo pipefail
slow='
e2e/agents: runs real agents for minutes
e2e/hostile: exhausts the limits of sandboxes for minutes
e2e/service: crashes servers under load for minutes
cmd/stint-bench: measures
internal/sandbox/gvisor: starts gVisor kernels for minutes
'
skips="$(mktemp)"
trap 'rm -f "$skips"' EXIT
left_out="$(sed -n 's/^\([a-z].*\): .*/\1/p' <<<"$slow")"
mapfile -t packages < <(go list ./... | grep -vE "/stint/($(paste -sd'|' <<<"$left_out"))(/|\$)")
# Prints one line for several tests of a package with the same reason.
group() {
	awk '{
		line = $0; package = $1; sub(/:$/, "", package)
		reason = line; sub(/^[^:]*: /, "", reason)
		key = package ": " reason
		if (!(key in count)) order[++keys] = key
		count[key]++; first[key] = line; packages[key] = package; reasons[key] = reason
	} END {
		for (i = 1; i <= keys; i++) {
			key = order[i]
			if (count[key] == 1) print first[key]
			else print packages[key] " (" count[key] " tests): " reasons[key]
		}
	}'
}
code=0
STINT_TEST_SKIPS="$skips" RAPID_SEED=1 RAPID_CHECKS=20 STINT_TEST_SEED=1 \
	go test -timeout 5m -skip '^TestSoak' "${packages[@]}" | grep -v 'no test files' || code=$?
echo
echo "Left out (make test runs all):"
{
	sed '/^$/d' <<<"$slow"
	echo "TestSoak...: exhaustive (make soak)"
	sort -u "$skips" | group
} | sed 's/^/  /'
exit "$code"
