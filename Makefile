# Stint. `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO ?= go
TOOL := $(GO) tool -modfile=tools/go.mod
export CGO_ENABLED ?= 0

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/stint
	$(GO) build -trimpath -ldflags='-s -w' -o bin/stint ./cmd/stint

.PHONY: demo
demo: ## Run the demonstration
	$(GO) run ./cmd/stint demo

.PHONY: modules
modules: ## Download the Go modules of the program, its tests, and its tools
	@tools/again.sh $(GO) list -deps -test ./... >/dev/null
	@tools/again.sh $(GO) list -modfile=tools/go.mod -deps tool >/dev/null
	@GOFLAGS= tools/again.sh $(GO) list -modfile=tools/versitygw/go.mod -deps tool >/dev/null

.PHONY: deps
deps: modules ## Install what the tests need (Debian, root)
	@tools/deps.sh
	@tools/agents.sh
	@GOFLAGS= CGO_ENABLED=0 $(GO) tool -modfile=tools/versitygw/go.mod -n versitygw >/dev/null # builds the S3 server of the tests

# Tests that must pass before a commit lands. Random tests have few cases and fixed seeds.
test unit alone: export STINT_TEST_ALL = 1
test unit alone: export STINT_TEST_SEED = 1
test unit alone: export RAPID_SEED = 1
test unit alone: export RAPID_CHECKS ?= 20

.PHONY: test
test: ## Everything that must pass before a commit lands (25 minutes on two cores)
	@$(MAKE) --no-print-directory -j2 unit lint # the linters use the processors while tests wait
	@$(MAKE) --no-print-directory alone
	@RAPID_CHECKS=100 $(MAKE) --no-print-directory soak SOAK=2m SEED=1

# These packages measure, or use up processors, memory, and processes, and run one at a time.
alone := ./e2e/agents ./e2e/hostile ./e2e/service ./cmd/stint-bench/... ./internal/sandbox/gvisor/... ./internal/sandbox/namespace
# These packages test other processes or SQLite's own code, so the race detector would find nothing. Their
# callers are tested with it (store/groupcommit, http/api, runs, worker).
unraced := ./cmd/stint ./e2e ./e2e/compatibility ./e2e/contract ./e2e/download ./e2e/egress ./internal/store/sqlite
raced = $$($(GO) list ./... | grep -vxFf <($(GO) list $(alone) $(unraced)))
flags := -timeout 20m -skip '^TestSoak'

.PHONY: unit
unit: deps ## Tests of packages that run beside others, mostly with the race detector
	CGO_ENABLED=1 $(GO) test -race -p 2 $(flags) $(raced)
	$(GO) test -p 2 $(flags) $(unraced)

.PHONY: alone
alone: deps ## Tests of packages that need the machine for themselves
	CGO_ENABLED=1 $(GO) test -race -p 1 $(flags) ./internal/sandbox/namespace
	$(GO) test -p 1 $(flags) $(filter-out ./internal/sandbox/namespace,$(alone))

.PHONY: soak
soak: ## Random and exhaustive tests for SOAK (10m), with new seeds or from SEED on
	@tools/soak.sh "$${SOAK:-10m}" "$${SEED:-}"

.PHONY: short
short: ## Tests of the inner loop, without root (5 minutes on four cores); prints what it leaves out
	@tools/short.sh

.PHONY: lint
lint: modules ## Formatting, linters, and dead code, at low priority
	@test -z "$$(nice $(TOOL) gofumpt -l $$(git ls-files '*.go'))" || { echo "run make fmt"; exit 1; }
	$(GO) mod tidy -diff
	nice $(TOOL) golangci-lint run ./...
	@out="$$(nice $(TOOL) deadcode -test ./... | sed '/unreachable func: Example/d')"; test -z "$$out" || { echo "dead code:"; echo "$$out"; exit 1; }

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) gofumpt -w $$(git ls-files '*.go')

.PHONY: fuzz
fuzz: ## Fuzz every parser of untrusted input for FUZZTIME (10s)
	@tools/fuzz.sh "$${FUZZTIME:-10s}"

.PHONY: bench
bench: ## Go benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: e2e
e2e: ## End-to-end tests
	$(GO) test -count=1 ./e2e/...

.PHONY: docs
docs: ## Write docs/cli.md, docs/configuration.md, and the recorded help
	$(GO) test ./internal/cli ./internal/config -run '^Test(Help|Reference|Docs)$$' -update

.PHONY: recording
recording: build ## Record the demonstration in docs/demo.svg
	$(GO) -C tools/recording build -o $(CURDIR)/bin/recording .
	bin/recording docs/demo.svg 'stint demo' bin/stint demo

.PHONY: dist
dist: ## Build release archives and checksums in dist/
	@tools/dist.sh
