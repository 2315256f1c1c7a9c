#!/usr/bin/env bash
# Generates a fixture: the data of two installations of one released program,
# and what its API returned about them.
#
#   generate.sh STINT DIR
#
# STINT is the program, built from the commit that DIR is named after. It needs
# root, curl, jq, sqlite3, PostgreSQL, Go (for the S3 server), and a machine on
# which `STINT doctor` finds the namespace isolation.
#
# DIR gets, for each of the variants "sqlite" and "postgres":
#
#   NAME.tar.gz       data/ is the data folder; with PostgreSQL and S3 it has
#                     only the files that are not rebuilt, and beside it are
#                     dump.sql and bucket/ (one file per object)
#   NAME.json.gz      the tokens, and each recorded exchange (see record.sh)
#
# A fixture is generated once and never again: IDs, keys, and times differ in
# each generation. A later release adds a folder of its own.
set -euo pipefail

stint=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
# Built before HOME changes, which names the caches of Go.
s3=$(cd "$here" && cd "$(git rev-parse --show-toplevel)" && GOFLAGS='' CGO_ENABLED=0 go tool -modfile=tools/versitygw/go.mod -n versitygw)
work=$(mktemp -d)
chmod 755 "$work"
port=${PORT:-18700}
url=http://127.0.0.1:$port
export HOME=$work/home XDG_CONFIG_HOME=$work/home/.config TZ=UTC LC_ALL=C.UTF-8
mkdir "$HOME"
pids=()
trap 'for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT

# shellcheck source=content.sh
. "$here/content.sh"
# shellcheck source=record.sh
. "$here/record.sh"

await() { # COMMAND...: waits until it succeeds
	for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
	echo "timed out: $*" >&2
	return 1
}

serve() { # FLAGS...: starts the server of $data
	"$stint" serve --data "$data" --listen "127.0.0.1:$port" --gc-every 0 --lease-ttl 1s "$@" >>"$work/log" 2>&1 &
	server=$!
	pids+=("$server")
	await curl -sf "$url/readyz"
}

halt() { # SIGNAL: ends the server
	kill -"$1" "$server"
	wait "$server" || true
}

# strip removes what belongs to this machine and is written at each start: copies
# of the program, locks, the list of cgroups, and the machine's roots of trust.
strip() {
	rm -rf "$data/programs" "$data/trust.pem" "$data/lock" "$data/stint.sock" "$data/worker/cache/boot" "$data/sandbox/namespace/cgroups"
}

pack() { # NAME PATH...: archives the paths of $work
	local name=$1
	shift
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$@" | gzip -9n >"$out/$name.tar.gz"
	jq -cs . "$work/exchanges" | jq -c --slurpfile tokens "$work/tokens" '{tokens: $tokens[0], exchanges: .}' | gzip -9n >"$out/$name.json.gz"
}

sqlite_variant() {
	data=$work/data
	flags=()
	rm -rf "$data"
	serve
	content
	halt TERM
	sqlite3 "$data/stint.db" "update tokens set expires_at = created_at + 1000 where name = 'expired'"
	serve
	record
	halt TERM
	strip
	pack sqlite data
}

postgres_variant() {
	local pg socket=$work/pg
	data=$work/data
	rm -rf "$data"
	pg=$(find /usr/lib/postgresql/*/bin -maxdepth 0 | sort -V | tail -1)
	install -d -o postgres -m 755 "$socket"
	runuser -u postgres -- "$pg/initdb" --pgdata "$socket/data" --username postgres --auth trust \
		--encoding UTF8 --locale C --locale-provider icu --icu-locale en --no-sync >/dev/null
	(cd / && exec runuser -u postgres -- "$pg/postgres" -D "$socket/data" -k "$socket" -c listen_addresses=) >>"$work/log" 2>&1 &
	pids+=($!)
	await psql -h "$socket" -U postgres -c 'select 1'
	psql -q -h "$socket" -U postgres -c 'create database stint template template0'

	mkdir -p "$work/buckets/bucket" "$work/attributes"
	export AWS_ACCESS_KEY_ID=fixture AWS_SECRET_ACCESS_KEY=fixture-secret-key
	ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY "$s3" --port "127.0.0.1:$((port + 1))" --region eu-test-1 --quiet \
		posix --sidecar "$work/attributes" "$work/buckets" >>"$work/log" 2>&1 &
	pids+=($!)
	await curl -s "http://127.0.0.1:$((port + 1))/"

	flags=(--database "postgres://postgres@/stint?host=$socket&sslmode=disable" --encrypt-storage on
		--storage "s3://bucket?path_style=true&region=eu-test-1&endpoint=http://127.0.0.1:$((port + 1))")
	serve "${flags[@]}"
	content
	halt TERM
	psql -q -h "$socket" -U postgres stint -c "update tokens set expires_at = created_at + 1000 where name = 'expired'"
	serve "${flags[@]}"
	record
	halt TERM
	# The bucket and the database are all there is, beside the key and the identity.
	find "$data" -mindepth 1 -maxdepth 1 ! -name key ! -name instance ! -name ca.pem -exec rm -rf {} +
	# Rows are inserted by SQL alone, so that any client can restore them.
	"$pg/pg_dump" -h "$socket" -U postgres --no-owner --no-acl --inserts --rows-per-insert=100 stint | grep -v '^\\' >"$work/dump.sql"
	mv "$work/buckets/bucket" "$work/bucket"
	find "$work/bucket" -name '.sgwtmp*' -prune -exec rm -rf {} +
	pack postgres bucket data dump.sql
}

sqlite_variant
rm -rf "$HOME/.config"
postgres_variant
ls -l "$out"
