# Every target with a ## comment is listed by `make help`.

# Nested modules hold what only examples, benchmarks and tests with drivers need.
MODULES := . $(patsubst %/go.mod,%,$(wildcard bench/go.mod examples/*/go.mod tracker/sqltest/go.mod server/browsertest/go.mod))
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TESTFLAGS ?= -race -shuffle=on -count=1 -timeout=20m

.DEFAULT_GOAL := help
.PHONY: help deps test lint fmt bench soak

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## Install what the tests need: a Redis server, a C compiler, node, curl, PostgreSQL, Chromium
	@scripts/test-deps

test: deps ## Run all tests, with real Redis servers
	@set -e; for module in $(MODULES); do \
		echo "== $$module"; (cd $$module && go vet ./... && go test $(TESTFLAGS) ./...); done

soak: deps ## Run the long versions of the tests
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'Killed|Model|ResizeUnderLoad|OneServerWouldHave' \
		./ick ./fairqueue ./expiry ./tracker ./scatter -rapid.checks=2000
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'EveryProtection|Killed' ./fetch
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v -run 'TestACL$$|TestLoadWhile' ./conformance ./server
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v -run TestSilentNode ./conformance
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'Faults|Schedules|Everybody|Restored|EveryStep' ./fleet/failover
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'Anywhere|TwoAt' ./fleet/rebalance

bench: deps ## Measure, each figure against its baseline
	cd bench && go run .

lint: ## Run the linters of .golangci.yaml
	@set -e; for module in $(MODULES); do \
		echo "== $$module"; (cd $$module && $(GOLANGCI) run --config $(CURDIR)/.golangci.yaml); done

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')
