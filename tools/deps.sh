#!/usr/bin/env bash
# Installs the missing Debian packages that the tests need.
set -euo pipefail
again="$(cd "$(dirname "$0")" && pwd)/again.sh"
need=()
have() { command -v "$1" >/dev/null 2>&1; }
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || need+=(postgresql)
have gcc || need+=(gcc libc6-dev)
have curl || need+=(curl)
have jq || need+=(jq)
have git || need+=(git)
have bsdtar || need+=(libarchive-tools)
have python3 || need+=(python3)
have unzip || need+=(unzip)
have zstd || need+=(zstd)
have node || need+=(nodejs)
have npm || need+=(npm)
have chromium || need+=(chromium)
[ -e /etc/ssl/certs/ca-certificates.crt ] || need+=(ca-certificates)
if [ ${#need[@]} -eq 0 ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ]; then
	echo "The tests need these packages; install them as root: ${need[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# The tests start their own clusters and do not need Debian's default cluster.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
# A new machine may be updating itself, so wait for its locks. A stale index
# names packages that no longer exist, so a retry downloads it again.
get_packages() { apt-get -qq -o DPkg::Lock::Timeout=900 install -y --no-install-recommends "$@"; }
fetch_packages() { apt-get -qq update && get_packages --download-only "$@"; }
export -f get_packages fetch_packages
"$again" bash -c 'fetch_packages "$@"' apt-get "${need[@]}" >/dev/null
get_packages "${need[@]}" >/dev/null
