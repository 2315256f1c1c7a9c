# Records what the API of the server at $url returns. Sourced by generate.sh.
#
# Each line of $work/exchanges is one GET:
#
#   {org, path, accept, status, json}      the body, where it is JSON
#   {org, path, accept, status, text}      the body, where it is a stream of events
#   {org, path, accept, status, sha256, size}   of any other body

api() { # METHOD PATH CURLFLAGS...: the body
	local method=$1 path=$2
	shift 2
	curl -sS -X "$method" -H "Authorization: Bearer $token" "$@" "$url$path"
}

get() { # PATH [ACCEPT]: records the exchange and prints a JSON body
	local accept=${2:-application/json} status type
	read -r status type < <(curl -sSL -o "$work/body" -w '%{http_code} %{content_type}\n' \
		-H "Authorization: Bearer $token" -H "Accept: $accept" "$url$1")
	local common='{$org, $path, $accept, status: ($status | tonumber)}'
	local args=(--arg org "$org" --arg path "$1" --arg accept "$accept" --arg status "$status")
	case $type in
	application/json*)
		jq -c "${args[@]}" "$common + {json: .}" "$work/body" >>"$work/exchanges"
		cat "$work/body"
		;;
	text/event-stream*) jq -cRs "${args[@]}" "$common + {text: .}" "$work/body" >>"$work/exchanges" ;;
	*)
		jq -cn "${args[@]}" --arg sha256 "$(sha256sum <"$work/body" | cut -d ' ' -f 1)" --arg size "$(stat -c %s "$work/body")" \
			"$common + {\$sha256, size: (\$size | tonumber)}" >>"$work/exchanges"
		;;
	esac
}

ids() { jq -r '.data[].id'; }

trees() { # KIND: volumes or artifacts
	local id v path
	for id in $(get "/v1/$1?limit=100" | ids); do
		get "/v1/$1/$id" >/dev/null
		for v in $(get "/v1/$1/$id/versions?limit=100" | ids); do
			get "/v1/$1/$id/versions/$v" >/dev/null
			get "/v1/$1/$id/download?versionId=$v" application/gzip
			get "/v1/$1/$id/download?versionId=$v&format=tar" application/x-tar
			get "/v1/$1/$id/diff?from=$v&to=latest&limit=100" >/dev/null
			get "/v1/$1/$id/versions/$v/files?limit=100" | jq -r '.data[] | select(.kind == "file") | .path | split("/") | map(@uri) | join("/")' >"$work/paths"
			while read -r path; do get "/v1/$1/$id/versions/$v/files/$path" '*/*'; done <"$work/paths"
		done
	done
}

record() {
	local id v
	: >"$work/exchanges"
	org=beta token=$beta
	trees volumes
	org=acme token=$(jq -r .valid "$work/tokens")
	trees volumes
	trees artifacts
	for id in $(get '/v1/agents?limit=100' | ids); do
		get "/v1/agents/$id" >/dev/null
		for v in $(get "/v1/agents/$id/versions?limit=100" | ids); do get "/v1/agents/$id/versions/$v" >/dev/null; done
	done
	for id in $(get '/v1/sessions?limit=100' | ids); do get "/v1/sessions/$id" >/dev/null; done
	for id in $(get '/v1/runs?limit=100' | ids); do
		for v in $(get "/v1/runs/$id" | jq -r '.checkpointId // empty'); do get "/v1/checkpoints/$v" >/dev/null; done
		get "/v1/runs/$id/events" text/event-stream
		get "/v1/runs/$id/events?limit=100" >/dev/null
		get "/v1/runs/$id/logs?limit=100" >/dev/null
		get "/v1/runs/$id/logs?limit=100&type=network&order=desc" >/dev/null
		get "/v1/runs/$id/metrics" >/dev/null
	done
	get '/v1/runs?limit=100&metadata%5Bteam%5D=red' >/dev/null
	get '/v1/runs?limit=100&status=failed' >/dev/null
	get '/v1/secrets?limit=100' >/dev/null
	get /v1/usage >/dev/null
	get '/v1/tokens?limit=100' >/dev/null
}
