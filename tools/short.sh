#!/usr/bin/env bash
# Runs the tests of the inner loop and prints the tests that it left out. It needs
# neither root nor the programs that `make deps` installs.
set -euo pipefail
slow='
e2e/agents: runs real agents for minutes
e2e/hostile: exhausts the limits of sandboxes for minutes
e2e/service: crashes servers under load for minutes
internal/bench: measures
internal/sandbox/gvisor: starts gVisor kernels for minutes
'
skips="$(mktemp)"
trap 'rm -f "$skips"' EXIT
left_out="$(sed -n 's/^\([a-z].*\): .*/\1/p' <<<"$slow")"
mapfile -t packages < <(go list ./... | grep -vE "/stint/($(paste -sd'|' <<<"$left_out"))(/|\$)")
code=0
STINT_TEST_SKIPS="$skips" RAPID_SEED=1 RAPID_CHECKS=20 STINT_TEST_SEED=1 \
	go test -timeout 5m -skip '^TestSoak' "${packages[@]}" | grep -v 'no test files' || code=$?
echo
echo "Left out (make test runs all):"
{
	sed '/^$/d' <<<"$slow"
	echo "TestSoak...: exhaustive (make soak)"
	sort -u "$skips"
} | sed 's/^/  /'
exit "$code"
