package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
)

// addExamples sets the examples in the help of a command and of its subcommands.
func addExamples(c *cobra.Command) {
	path := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	lines := commandExamples[path]
	for _, kind := range []stint.FileSetKind{stint.Volumes, stint.Artifacts} {
		if name, ok := strings.CutPrefix(path, string(kind)+" "); ok {
			lines = strings.ReplaceAll(fileSetExamples[name], "KIND", string(kind))
		}
	}
	if lines = strings.TrimSpace(lines); lines != "" {
		c.Example = "  " + strings.ReplaceAll(lines, "\n", "\n  ")
	}
	for _, child := range c.Commands() {
		addExamples(child)
	}
}

// commandExamples contains the examples of each command, one a line, by the path of the
// command.
var commandExamples = map[string]string{ //nolint:gosec // names of commands, not credentials
	"demo": `
stint demo
stint demo --model-url https://api.anthropic.com
stint demo --model-url http://127.0.0.1:11434/v1 --model qwen3`,
	"serve": `
stint serve
stint serve --detach --data /srv/stint --listen 0.0.0.0:8700
STINT_CAPACITY=8 stint serve --config stint-server.yaml`,
	"stop": `
stint stop
stint stop --data /srv/stint`,
	"init": `
stint init
stint init my-agent --template claude-code
stint init fixer -t codex --name test-fixer`,
	"help": `
stint help run
stint help volume push`,

	"auth login": `
stint auth login
stint auth login --org research --context research --expires 12h
stint auth login --data /srv/stint --name laptop`,
	"auth logout": `
stint auth logout
stint auth logout research`,
	"auth status": `
stint auth status
stint auth status --json`,
	"auth token": `
stint auth token
curl -H "Authorization: Bearer $(stint auth token)" http://127.0.0.1:8700/v1/runs`,
	"auth list": `
stint auth list
stint auth list --json`,
	"auth switch": `
stint auth switch
stint auth switch research
stint runs list --context research`,

	"agent push": `
stint agent push
stint agent push my-agent
stint agent push reviewer.yaml --name reviewer-test`,
	"agent list": `
stint agent list
stint agent list --json`,
	"agent show": `
stint agent show reviewer
stint agent show reviewer@2 --json`,
	"agent versions": `
stint agent versions reviewer
stint agent versions @last --json`,
	"agent rm": `
stint agent rm reviewer
stint agent rm reviewer fixer`,

	"run": `
stint run reviewer 'Review the last change' --volume code
stint run builder - --artifact site --pull public < prompt.txt
stint run fixer 'Fix the tests' --max-cost 0.50 --timeout 10m --exit-code
RUN=$(stint run fixer 'Fix the tests' --detach)`,
	"continue": `
stint continue @last 'Now add a test'
stint continue sess_01kdyvbmk8 'Explain it' --max-turns 5
stint continue @last - --pull out < prompt.txt`,
	"resume": `
stint resume @last 'Try another way'
stint resume @last 'Use Go instead' --artifact second-try
stint resume run_01kdyvbmk8 - --detach < prompt.txt`,

	"runs list": `
stint runs list
stint runs list --status running,pending --agent reviewer
stint runs list --since 24h --metadata team=red --limit 0 --json`,
	"runs show": `
stint runs show @last
stint runs show run_01kdyvbmk8 --json`,
	"runs cancel": `
stint runs cancel @last
stint runs list --status pending --json | jq -r .id | xargs stint runs cancel`,
	"runs events": `
stint runs events @last
stint runs events run_01kdyvbmk8 --after 120 --json
stint runs events @last --recorded --json > events.jsonl`,
	"runs logs": `
stint runs logs @last
stint runs logs @last --follow
stint runs logs run_01kdyvbmk8 --type network,system --since 5m`,
	"logs": `
stint logs @last
stint logs @last -f
stint logs run_01kdyvbmk8 -f --type network`,
	"runs metrics": `
stint runs metrics @last
stint runs metrics run_01kdyvbmk8 --json`,
	"top": `
stint top
stint top --once
stint top --json | jq '.data[] | select(.status == "pending")'`,
	"sessions list": `
stint sessions list
stint sessions list --limit 0 --json`,
	"sessions show": `
stint sessions show @last
stint sessions show sess_01kdyvbmk8 --limit 5`,
	"checkpoints show": `
stint checkpoints show @last
stint checkpoints show run_01kdyvbmk8 --json`,

	"secret set": `
stint secret set API_KEY
stint secret set API_KEY --hosts api.example.com,*.example.org < key.txt
stint secret set DEPLOY_KEY --agents deployer < key.txt
stint secret set API_KEY --hosts '' < key.txt`,
	"secret list": `
stint secret list
stint secret list --json`,
	"secret show": `
stint secret show API_KEY
stint secret show API_KEY --json`,
	"secret check": `
stint secret check
stint secret check --json`,
	"secret rm": `
stint secret rm API_KEY
stint secret rm OLD_KEY OLDER_KEY`,
	"usage": `
stint usage
stint usage --json`,
	"mcp": `
stint mcp
claude mcp add stint -- stint mcp`,

	"token create": `
stint token create ci --scope read,write --expires 30d
STINT_TOKEN=$(stint token create laptop) stint runs list`,
	"token list": `
stint token list
stint token list --json`,
	"token revoke": `
stint token revoke tok_01kdyvbmk8
stint token revoke ci`,
	"keys list": `
stint keys list
stint keys list --data /srv/stint --json`,
	"keys rotate": `
stint keys rotate
stint keys rotate --org research
stint keys rotate --installation`,
	"gc": `
stint gc --dry-run
stint gc --grace 1h`,
	"fsck": `
stint fsck
stint fsck --quick
stint fsck --repair --data /srv/stint`,
	"doctor": `
stint doctor
stint doctor --data /srv/stint --json`,
	"version": `
stint version
stint version --json`,
}

// fileSetExamples contains the examples of the subcommands of volume and artifact. KIND
// stands for one of the two.
var fileSetExamples = map[string]string{
	"create": `
stint KIND create work
stint KIND create work --json`,
	"push": `
stint KIND push code .
stint KIND push code src --message 'before the review' --dry-run
stint KIND push code --git https://github.com/OWNER/REPOSITORY@v1.2.0`,
	"pull": `
stint KIND pull work out
stint KIND pull work@2 out --delete
stint KIND pull work out --dry-run`,
	"list": `
stint KIND list
stint KIND list --json`,
	"versions": `
stint KIND versions work
stint KIND versions work --graph`,
	"files": `
stint KIND files work
stint KIND files work@2 --json`,
	"cat": `
stint KIND cat work report.md
stint KIND cat work@2 img/logo.png > logo.png`,
	"diff": `
stint KIND diff work
stint KIND diff work 1 3 src/main.go
stint KIND diff work --patch | git apply
stint KIND diff work v1 v3 --patch src/ > changes.patch`,
	"promote": `
stint KIND promote work@2
stint KIND promote work@2 --if-match 3`,
	"keep": `
stint KIND keep work@2
stint KIND keep work@2 --release`,
	"rm": `
stint KIND rm work
stint KIND rm work@2 work@3`,
}
