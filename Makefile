# Stint. `make` lists what can be done.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO ?= go
TOOL := $(GO) tool -modfile=tools/go.mod
export CGO_ENABLED ?= 0

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/stint
	$(GO) build -trimpath -ldflags='-s -w' -o bin/stint ./cmd/stint

.PHONY: demo
demo: ## Run the main job from start to end
	$(GO) run ./cmd/stint demo

.PHONY: modules
modules: ## Fetch the Go modules of the program, its tests and its tools
	@tools/again.sh $(GO) list -deps -test ./... >/dev/null
	@tools/again.sh $(GO) list -modfile=tools/go.mod -deps tool >/dev/null
	@GOFLAGS= tools/again.sh $(GO) list -modfile=tools/versitygw/go.mod -deps tool >/dev/null

.PHONY: deps
deps: modules ## Install what the tests need (Debian, root)
	@tools/deps.sh
	@tools/agents.sh
	@GOFLAGS= CGO_ENABLED=0 $(GO) tool -modfile=tools/versitygw/go.mod -n versitygw >/dev/null # builds the S3 server of the tests

.PHONY: test
test: ## Everything that must hold: lint, unit, conformance and end-to-end tests, where it tells anything with the race detector
	@$(MAKE) --no-print-directory -j2 unit lint # what one leaves idle the other takes
	@$(MAKE) --no-print-directory whole

# What is tested there is other processes, into which no race detector sees, or SQLite's own code: what we do with it at the
# same time is in packages that are tested with the detector (store/groupcommit, httpapi, engine, runs).
processes := ./cmd/... ./e2e/... ./internal/bench/... ./internal/sandbox/gvisor/... ./internal/store/sqlite/...
inside = $$($(GO) list ./... | grep -vxFf <($(GO) list $(processes)))
# Packages whose tests leave out what is exhaustive when they are to be short, as all of rapid's do.
shortened := $(shell grep -rlE --include='*_test.go' 'testing\.Short\(\)|pgregory\.net/rapid|storetest\.Run' . | xargs -n1 dirname | sort -u)

.PHONY: unit
unit: deps ## Tests with the race detector, without what is exhaustive
	CGO_ENABLED=1 $(GO) list -race -test -deps -export $(inside) >/dev/null # compiles several at a time
	CGO_ENABLED=1 $(GO) test -race -short -p 1 -timeout 20m $(inside) # one at a time: several start servers, databases and sandboxes

.PHONY: whole
whole: deps ## Tests of other processes, and exhaustive ones, without the race detector
	$(GO) build ./...
	$(GO) test -p 1 -timeout 20m $(sort $(shortened) $(processes))

.PHONY: short
short: ## Tests without the race detector, for the inner loop
	$(GO) test -timeout 10m ./...

.PHONY: lint
lint: modules ## Formatting, vet, linters, dead code; it leaves the processors to whatever else runs
	@test -z "$$(nice $(TOOL) gofumpt -l $$(git ls-files '*.go'))" || { echo "run make fmt"; exit 1; }
	$(GO) mod tidy -diff
	nice $(TOOL) golangci-lint run ./...
	@out="$$(nice $(TOOL) deadcode -test ./...)"; test -z "$$out" || { echo "dead code:"; echo "$$out"; exit 1; }

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) gofumpt -w $$(git ls-files '*.go')

.PHONY: fuzz
fuzz: ## Fuzz every parser of foreign bytes for FUZZTIME (10s)
	@tools/fuzz.sh "$${FUZZTIME:-10s}"

.PHONY: bench
bench: ## Go benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: e2e
e2e: ## End-to-end scripts alone
	$(GO) test -count=1 ./e2e/...

.PHONY: docs
docs: ## Write docs/configuration.md from the code
	$(GO) test ./internal/config -run TestDocs -update

.PHONY: dist
dist: ## Release archives and checksums into dist/
	@tools/dist.sh
