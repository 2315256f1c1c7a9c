#!/usr/bin/env bash
# Runs a command that downloads something, and repeats it if it fails or hangs:
# again.sh COMMAND...
set -euo pipefail
code=0
for pause in 5 30 90 0; do
	timeout --kill-after=10 15m "$@" && exit 0 || code=$?
	if [ "$pause" -gt 0 ]; then
		echo "$1 failed with exit code $code; retrying in $pause seconds." >&2
		sleep "$pause"
	fi
done
exit "$code"
