#!/bin/sh
# The main job with curl alone: store an agent and a volume, start a run, follow
# its stream, break off, resume by ID without losing or repeating an event, and
# download what the run made.
#
#   STINT_URL=http://127.0.0.1:8700 STINT_TOKEN=$(stint auth token) sh curl.sh
set -eu
: "${STINT_URL:?the server, such as http://127.0.0.1:8700}" "${STINT_TOKEN:?a token, from: stint auth token}"
name=curl-$$
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# api METHOD PATH [curl arguments]: prints the answer, fails with it on an error.
api() {
  method=$1 path=$2
  shift 2
  curl -sS --fail-with-body -X "$method" -H "Authorization: Bearer $STINT_TOKEN" "$@" "$STINT_URL/v1$path" || {
    echo >&2
    echo "$method $path failed" >&2
    exit 1
  }
}

# field NAME: the first text member of that name in the JSON on standard input.
field() { sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" | head -n 1; }

# string TEXT: as JSON.
string() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | awk 'BEGIN { printf "\"" } { printf "%s%s", sep, $0; sep = "\\n" } END { printf "\"" }'; }

echo "1. an agent"
agent=$(api POST /agents -H 'Content-Type: application/json' -d '{
  "name": "'$name'", "framework": "shell", "network": {"mode": "none"},
  "volumes": {"'$name'": {"path": "/data"}}, "timeout": "1m"
}' | field id)
echo "   $agent"

echo "2. a volume, from a tar.gz"
mkdir in
echo "Flour, water, salt and patience." >in/bread.txt
echo "Twice a day the sea comes to look at the land." >in/tides.txt
tar -czf in.tar.gz -C in .
volume=$(api POST /volumes -H 'Content-Type: application/json' -d '{"name": "'$name'"}' | field id)
version=$(api POST "/volumes/$volume/versions?message=first" -H 'Content-Type: application/gzip' --data-binary @in.tar.gz | field id)
echo "   $volume at $version"

echo "3. a run"
prompt='set -e
for text in /data/*.txt; do
  echo "reading ${text##*/}"
  tr a-z A-Z <"$text" >"${text##*/}"
  sleep 0.3
done
echo done'
run=$(api POST /runs -H 'Content-Type: application/json' -H "Idempotency-Key: $name" \
  -d '{"agentId": "'"$agent"'", "prompt": '"$(string "$prompt")"', "artifactName": "'$name'"}' | field id)
echo "   $run"

stream() { api GET "/runs/$run/events" -N -H 'Accept: text/event-stream' "$@"; }
# Heartbeats only keep the connection alive.
events() { awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^event: heartbeat/'; }

echo "4. its stream, broken off after event 3"
{ stream 2>/dev/null || true; } | sed '/^id: 3$/q' >part1
last=$(sed -n 's/^id: //p' part1 | tail -n 1)
echo "   the last ID is $last"

echo "5. the rest, resumed after it"
stream -H "Last-Event-ID: $last" >part2
{ cat part1; echo; cat part2; } | events >both
stream | events >whole
cmp both whole || { echo "an event was lost, repeated or changed" >&2; exit 1; }
ids=$(sed -n 's/^id: //p' both)
[ "$ids" = "$(seq "$(echo "$ids" | wc -l)")" ] || { echo "the IDs have a gap" >&2; exit 1; }
grep -q '^event: complete$' part2 || { echo "the stream did not come to its end" >&2; exit 1; }
echo "   $(echo "$ids" | wc -l) events, each exactly once"

echo "6. the artifact"
answer=$(api GET "/runs/$run")
[ "$(echo "$answer" | field status)" = completed ] || { echo "the run ended otherwise: $answer" >&2; exit 1; }
made=$(echo "$answer" | field artifactVersion)
artifact=$(api GET '/artifacts?limit=100' | tr '{' '\n' | grep "\"name\": *\"$name\"" | field id)
# The address that the server names needs no token, so none is sent there.
location=$(api GET "/artifacts/$artifact/download?versionId=$made" -o /dev/null -w '%{redirect_url}')
curl -sS --fail "$location" -o out.tar.gz
mkdir out
tar -xzf out.tar.gz -C out
for text in bread.txt tides.txt; do
  tr a-z A-Z <"in/$text" | cmp - "out/$text"
done
echo "   $artifact at $made: $(wc -c <out.tar.gz) bytes, verified"
