# Fills the server at $url with content. Sourced by generate.sh.

stint() { "$stint" --url "$url" "$@"; }

# tree writes the files of a volume.
tree() { # DIR
	local d=$1
	mkdir -p "$d/empty" "$d/bin" "$d/odd names/ünïcödé 🙂" "$d/closed" "$d/deep/er/and/deeper"
	echo 'some notes' >"$d/notes.txt"
	: >"$d/empty.txt"
	printf '#!/bin/sh\necho from the script\n' >"$d/bin/run.sh"
	chmod 755 "$d/bin/run.sh"
	echo dash >"$d/odd names/-dash"
	echo space >"$d/odd names/ trailing "
	echo quote >"$d/odd names/\"quotes\" and 'more'; \$(true) & %41 # ?.txt"
	echo composed >"$d/odd names/ünïcödé 🙂/ß.txt"
	echo hidden >"$d/.hidden"
	echo deep >"$d/deep/er/and/deeper/file"
	echo read-only >"$d/closed/read-only"
	chmod 444 "$d/closed/read-only"
	chmod 750 "$d/closed"
	ln -s notes.txt "$d/link"
	ln -s ../notes.txt "$d/bin/up"
	ln -s absent "$d/dangling"
	ln -s odd\ names "$d/folder-link"
	truncate -s 300000 "$d/sparse"
	printf 'after the hole' >>"$d/sparse"
	# More than 2 MiB, the largest chunk, and little of it when compressed.
	awk 'BEGIN { for (i = 0; i < 12000; i++) printf "%06d %s\n", i, \
		"the quick brown fox jumps over the lazy dog and the quick brown fox jumps over the lazy dog, again and again and again, until the line has the length that a large file of few kilobytes asks for, and so on and so forth" }' >"$d/large.txt"
	printf '\000\001\002\377\376' >"$d/binary"
	find "$d" -exec touch -h -d '2024-02-29T12:34:56.789012345Z' {} +
}

agents() {
	local d=$work/agents
	rm -rf "$d" && mkdir "$d"
	local description
	for description in 'runs a script' 'runs a script, with more memory' 'runs a script, with less'; do
		jq -n --arg d "$description" '{name: "shell", framework: "shell", description: $d, network: {mode: "none"}}' >"$d/shell.yaml"
		stint agent push "$d/shell.yaml"
	done
	cat >"$d/keeper.yaml" <<-'Y'
		name: keeper
		description: uses a stored secret, a variable, two volumes, and one host
		framework: shell
		environment:
		  API_KEY: "${{ secrets.API_KEY }}"
		  REQUEST_KEY: "${{ secrets.REQUEST_KEY }}"
		  GREETING: "${{ vars.GREETING }}"
		  FIXED: a fixed value
		volumes:
		  texts: {path: /data}
		  pinned: {path: /pinned, version: "1"}
		network:
		  mode: restricted
		  allow: ["host.stint.internal:9", "*.example.com:443"]
	Y
	stint agent push "$d/keeper.yaml"
	cat >"$d/secretive.yaml" <<-'Y'
		name: secretive
		framework: shell
		environment: {API_KEY: "${{ secrets.API_KEY }}"}
		network: {mode: none}
	Y
	stint agent push "$d/secretive.yaml"
	printf 'name: boxed\nframework: shell\n' >"$d/boxed.yaml"
	stint agent push "$d/boxed.yaml"
	printf 'name: boxed\nframework: shell\nsandbox: docker\nvolumes: {texts: {path: /data}}\nresources: {cpu: 1, memory: 64MiB}\n' >"$d/boxed.yaml"
	stint agent push "$d/boxed.yaml"
	cat >"$d/talker.yaml" <<-'Y'
		name: talker
		description: the built-in agent without a model
		framework: assistant
		instructions: Be brief.
		volumes: {texts: {path: /data}}
		network: {mode: none}
	Y
	stint agent push "$d/talker.yaml"
	cat >"$d/counter.yaml" <<-'Y'
		name: counter
		framework: command
		command: [/bin/sh, -c, 'wc -w; echo "{\"words\": 3}"']
		network: {mode: none}
		output: {schema: {type: object, properties: {words: {type: integer}}, required: [words]}}
	Y
	stint agent push "$d/counter.yaml"
	cat >"$d/full.yaml" <<-'Y'
		name: full
		description: has every key and is never run
		framework: claude-code
		image: docker.io/library/debian:12
		instructions: |
		  Several lines
		  of instructions.
		model: claude-sonnet-5
		provider:
		  type: anthropic
		  baseUrl: https://api.example.com
		  apiKey: {secret: API_KEY}
		  prices: {"*": {input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75}}
		environment: {PLAIN: value, SECRET: "${{ secrets.API_KEY }}", VARIABLE: "${{ vars.VARIABLE }}"}
		volumes:
		  texts: {path: /data, version: latest}
		  absent: {path: /absent, optional: true}
		artifact: {path: /workspace}
		network: {mode: restricted, allow: ["*.example.com", "10.0.0.0/8:5432"], inspect: [api.example.com]}
		secrets: {BROKERED: {hosts: [api.example.com]}}
		resources: {cpu: 1.5, memory: 512MiB, disk: 1GiB, pids: 64}
		limits: {outputBytes: 1MiB, maxTurns: 30, maxTokens: 500000, maxCostUsd: 1.5, idleTimeout: 10m}
		timeout: 15m
		sandbox: gvisor
		mcpServers:
		  docs: {url: https://docs.example.com/mcp, headers: {Authorization: "Bearer ${{ secrets.API_KEY }}"}}
		  files: {command: [mcp-files, /data], env: {LEVEL: debug}}
		  stint: {url: http://api.stint.internal/mcp}
		output: {schema: {type: object, properties: {answer: {type: string}}, required: [answer]}}
	Y
	stint agent push "$d/full.yaml"
	printf 'name: removed\nframework: shell\n' >"$d/removed.yaml"
	stint agent push "$d/removed.yaml"
}

volumes() {
	local d=$work/texts
	rm -rf "$d"
	tree "$d"
	stint volume push texts "$d" -m 'the first version'
	stint volume push pinned "$d/odd names"
	sed -i 's/^009000 the/009000 THE/' "$d/large.txt"
	rm "$d/.hidden"
	mv "$d/binary" "$d/renamed"
	echo 'more notes' >>"$d/notes.txt"
	find "$d" -exec touch -h -d '2024-03-01T00:00:00Z' {} +
	stint volume push texts "$d" -m 'the second version'
	echo 'still more' >>"$d/notes.txt"
	stint volume push texts "$d"
	stint volume keep texts@1
	stint volume create vacant
	rm -r "$d/odd names"
	stint volume push pinned "$d/deep"
	stint artifact push pushed "$d"
	mkdir -p "$work/scratch"
	seq 20000 >"$work/scratch/numbers"
	stint volume push scratch "$work/scratch"
	stint volume rm scratch
}

run() { # AGENT PROMPT FLAGS...: follows the run, whatever its end
	stint run "$@" || true
}

last() { stint runs list --json --limit 1 | jq -r "$1"; }

member() { # MEMBER: of the last run
	stint runs show "$(last .id)" --json | jq -r ".$1"
}

begun() { # ID: whether the run has written output
	stint runs logs "$1" --json | grep -q begun
}

runs() {
	local d=$work/agents session checkpoint id
	run shell 'echo to stdout; echo to stderr >&2; echo one >made.txt; mkdir sub; ln -s ../made.txt sub/link; chmod +x made.txt; echo 1 >$HOME/state' \
		--artifact result --metadata team=red --metadata 'odd key=ünïcödé 🙂 "quoted"' --priority 7
	session=$(member sessionId)
	checkpoint=$(member checkpointId)
	stint continue "$session" 'echo two >>made.txt; echo 2 >>$HOME/state; cat $HOME/state'
	stint continue "$session" 'rm sub/link; seq 3000 >numbers.txt; echo 3 >>$HOME/state; cat $HOME/state made.txt'
	stint resume "$checkpoint" 'cat $HOME/state made.txt; echo branch >branch.txt; echo 2b >>$HOME/state'
	run shell 'cat made.txt' --artifact result@1
	run shell@1 'sleep 2.2; echo an older version of the agent' --metadata team=blue
	run shell 'echo no >&2; exit 7'
	run shell 'echo begun; sleep 60' --timeout 1s --artifact partial
	run shell 'kill -9 $$'
	id=$(stint run -d shell 'echo kept >kept.txt; echo begun; sleep 60' --artifact cancelled)
	await begun "$id"
	stint runs cancel "$id"
	printf 'a prompt of several lines\n' | stint run counter - --timeout 30s
	run keeper 'echo "$GREETING $API_KEY $REQUEST_KEY $FIXED"; ls -A /data /pinned; cat /data/notes.txt; echo "$API_KEY" >leaked.txt
		for u in http://host.stint.internal:9/ http://refused.example.org/ https://10.1.2.3/ ; do curl -sS -m 5 $u; done; true' \
		--secret REQUEST_KEY=the-secret-of-a-request --var GREETING=hello --artifact kept
	run keeper 'cat /data/notes.txt' --secret REQUEST_KEY=another-secret --var GREETING= --volume texts=1
	run secretive 'printf %s "$API_KEY" | base64; echo "${#API_KEY}"'
	run boxed 'true'
	run boxed@1 'echo outside'
	run talker $'write notes.md: written by the assistant\nrun: ls /data\nread /data/notes.txt' --artifact talk
	stint continue "$(member sessionId)" 'run: cat notes.md'
	run removed 'echo the agent of this run is removed'
	stint agent rm removed
	local i
	for i in 1 2; do # the same key gives the same run
		api POST /v1/runs -H 'Idempotency-Key: fixture-key-1' -H 'Content-Type: application/json' \
			-d '{"agent":"shell","prompt":"echo once","metadata":{"case":"idempotency"}}' >/dev/null
	done
	await ended
	# The server is killed in the middle of a run.
	id=$(stint run -d shell 'echo begun; sleep 60' --metadata case=killed)
	await begun "$id"
	halt KILL
	serve "${flags[@]}"
	await ended
}

ended() { # whether every run has ended
	! stint runs list --limit 0 --json | jq -r .status | grep -qE 'pending|running'
}

content() {
	stint auth login --data "$data" --org beta --expires 365d
	rm -rf "$work/scratch" && mkdir "$work/scratch"
	echo 'of another organisation' >"$work/scratch/file"
	stint volume push other "$work/scratch"
	beta=$(stint auth token)
	stint auth login --data "$data" --org acme --expires 365d --name fixture
	token=$(stint auth token)
	jq -n --arg valid "$token" --arg expired "$(stint token create expired)" --arg revoked "$(stint token create revoked)" \
		'{$valid, $expired, $revoked}' >"$work/tokens"
	stint token create reader --scope read >/dev/null
	stint token revoke "$(stint token list --json | jq -r 'select(.name == "revoked") | .id')"
	stint secret set API_KEY first-value-of-the-secret
	stint secret set API_KEY the-stored-secret-value
	stint secret set OTHER 'another: ünïcödé "value"'
	agents
	volumes
	stint gc --data "$data" --grace 0
	stint keys rotate --data "$data" --org acme || true
	stint secret set LATER after-the-rotation
	runs
	stint artifact push pushed "$work/scratch"
	seq 30000 32000 >"$work/scratch/numbers"
	stint volume push scratch "$work/scratch"
	stint volume rm scratch
	stint gc --data "$data"
	stint fsck --data "$data"
}
