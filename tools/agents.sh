#!/usr/bin/env bash
# Installs the agents' programs for the tests, in the versions that e2e/agents
# pins, in a folder outside the repository that is named after the hash of the
# lockfile. The folder is created atomically.
set -euo pipefail
tools="$(cd "$(dirname "$0")" && pwd)"
from="$(cd "$tools/../e2e/agents" && pwd)"
base="${STINT_AGENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/stint/agents}"
into="$base/$(sha256sum "$from/package-lock.json" | cut -c1-16)"
if [ -d "$into" ]; then exit 0; fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
	echo "The agents' programs are pinned for Linux on x86-64; their tests cannot run here." >&2
	exit 1
fi
mkdir -p "$base"
work="$(mktemp -d "$base/.install-XXXXXX")"
trap 'rm -rf "$work"' EXIT
cp "$from/package.json" "$from/package-lock.json" "$from/.npmrc" "$work"
# The optional packages are the same programs for other systems.
(cd "$work" && "$tools/again.sh" npm ci --ignore-scripts --omit=optional --no-audit --no-fund --loglevel=error)
chmod 755 "$work"
mv -T "$work" "$into" 2>/dev/null || [ -d "$into" ] # a concurrent installation was faster
