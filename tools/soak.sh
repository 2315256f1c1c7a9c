#!/usr/bin/env bash
# Runs the random and the exhaustive tests in rounds: soak.sh DURATION [SEED]
#
# DURATION is a number with the unit s, m, or h. The first round is always
# completed; a further round starts if it is expected to end within DURATION. The
# rounds have the seeds SEED, SEED+1, ...; without SEED each round has a new seed
# and is followed by fuzzing.
set -euo pipefail
limit="$1" first="${2:-}"
case "$limit" in
*h) limit=$((${limit%h} * 3600)) ;;
*m) limit=$((${limit%m} * 60)) ;;
*) limit=${limit%s} ;;
esac
packages() { grep -rlE --include='*_test.go' '^func Test(Soak|Random)' "$@" | xargs -n1 dirname | sort -u; }
# The end-to-end tests take minutes, so they run only if there is much time.
folders=(./client ./internal)
if [ "$limit" -ge 1800 ]; then folders+=(./e2e); fi
mapfile -t packages < <(packages "${folders[@]}")

run_round() {
	STINT_TEST_SEED="$1" RAPID_SEED="$1" RAPID_CHECKS="${RAPID_CHECKS:-100}" go test -count=1 -p 2 -timeout 2h -run '^Test(Soak|Random)' "${packages[@]}"
}

longest=0
for ((round = 0; round == 0 || SECONDS + longest <= limit; round++)); do
	seed="${first:+$((first + round))}"
	seed="${seed:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
	echo "soak: round $((round + 1)) with seed $seed"
	began=$SECONDS
	run_round "$seed" || {
		echo "soak: failed with seed $seed; repeat it with: make soak SOAK=1s SEED=$seed" >&2
		exit 1
	}
	if [ -z "$first" ]; then tools/fuzz.sh "${FUZZTIME:-5s}"; fi
	if ((SECONDS - began > longest)); then longest=$((SECONDS - began)); fi
done
echo "soak: $round rounds in $SECONDS s"
