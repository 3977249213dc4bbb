# Every target with a ## comment is listed by `make help`.

# Nested modules hold what only examples, benchmarks and tests with drivers need.
# The longest come first, so that the last one to run is short.
NESTED := $(patsubst %/go.mod,%,$(wildcard server/browsertest/go.mod tracker/sqltest/go.mod examples/outbox/go.mod examples/webhooks/go.mod))
# A search engine, another client, other queues and the types of Kubernetes take long to compile, and no other package needs
# them: `make more` tests these.
MODULES := . $(NESTED) examples/docsync examples/goredis examples/from deploy/kubernetes bench
ACTIONLINT := go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GORELEASER := go run github.com/goreleaser/goreleaser/v2@v2.17.0
CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# The library and the service are tested with the race detector. Programs, which use them one call at a time, take a
# third of the time without it, and so do the agents of a fleet, of which fleet/agent runs all with it: `make more`
# tests them with it, too.
PROGRAMS := /(clients|cmd/millrace|conformance|deploy|examples|internal/(bench|chaos|fleet|repo|screen))(/|$$)
packages = $(or $(shell go list ./... | grep $(1) '$(PROGRAMS)'),$(error go list ./... names no package: see above))
# Vet runs with the linters, since half its time here would go to the packages of others. Most tests wait for servers,
# so twice as many packages are tested at a time as there are CPUs.
CPUS := $(shell getconf _NPROCESSORS_ONLN)
TESTFLAGS ?= -vet=off -shuffle=on -count=1 -timeout=20m -p=$(shell expr 2 '*' $(CPUS))
# Tests run without a debugger: without its tables they are compiled in four fifths of the time, and linked in two
# thirds. Tests that build get the same flags, so that nothing is compiled in both ways. Without the paths of this
# machine in it, compiled code is found again from another clone, and from one with a module cache of its own.
test test/% compile servers more soak: export GOFLAGS := $(shell go env GOFLAGS) -trimpath -gcflags=all=-dwarf=false -ldflags=-s
# A program with the race detector waits at its end for a second, children that tests start included, without this.
test test/% servers more soak: export GORACE := $(GORACE) atexit_sleep_ms=0

.DEFAULT_GOAL := help
.PHONY: release-check cyclonedx site help deps compile test servers more lint fmt bench soak test/library test/programs $(NESTED:%=test/%)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## Install what the tests need: a Redis server, a C compiler, node, tsc, python3, ruby, PHP, curl, PostgreSQL, Chromium
	@internal/repo/scripts/test-deps

# Two at a time: installing takes one CPU, and tests leave CPUs idle.
test: ## Run all tests, with real Redis servers
	@$(MAKE) --no-print-directory --jobs=2 deps compile
	@$(MAKE) --no-print-directory --jobs=2 test/library test/programs $(NESTED:%=test/%)

# A new machine waits for packages and modules from afar; meanwhile it compiles all that the tests need, etcd too, so that
# no test starts late and runs on alone. Export data comes from the compiler: go test finds all of it, and links only. The
# tests show what does not compile.
# With GOGC the compiler takes a twelfth less of the CPU, and at most 1.3 GB of memory instead of 0.8.
COMPILE := GOGC=400 go list -e -export -deps -test
compile:
	@$(COMPILE) -race $(call packages,-vE) >/dev/null 2>&1 || true
	@test -n "$$MILLRACE_TEST_ETCD" || (cd internal/test/etcdtest/server && GOGC=400 go run -exec true go.etcd.io/etcd/server/v3) >/dev/null 2>&1 || true
	@$(COMPILE) $(call packages,-E) >/dev/null 2>&1 || true
	@for module in $(NESTED); do (cd $$module && $(COMPILE) ./...) >/dev/null 2>&1 || true; done

test/library:
	go test -race $(TESTFLAGS) $(call packages,-vE)

# Beside the library: fewer at a time.
test/programs:
	go test $(TESTFLAGS) -p=$(shell expr 1 + $(CPUS)) $(call packages,-E)

$(NESTED:%=test/%): test/%:
	cd $* && go test $(TESTFLAGS) ./...

servers: ## Run what touches Redis on each server of MILLRACE_TEST_SERVERS, and print a table
	@internal/repo/scripts/test-servers $(TESTFLAGS)

more: deps ## Run all tests with the race detector, and those that take long
	@set -e; for module in $(MODULES); do \
		echo "== $$module"; (cd $$module && MILLRACE_MORE=1 go test -race -tags=more $(TESTFLAGS) ./...); done

soak: deps ## Run the long versions of the tests
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'Killed|Model|ResizeUnderLoad|OneServerWouldHave|Million' \
		./ick ./fairqueue ./expiry ./pinned ./tracker ./scatter ./lease -rapid.checks=2000
	MILLRACE_SOAK=1 go test -count=1 -timeout=2h -v -run 'MillionMessages|SkippedFlows|GrowingQueue|NothingGrows' ./fairqueue
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v -run 'TestEverything$$' ./fairqueue
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'EveryProtection|Killed|ManyKeys|Outage' ./fetch
	go run ./internal/test/mutate -first 'Histories|Wrong|Version|Foreign|Refuse' ./ick ./ick/channel=./ick ./lease ./expiry ./pinned ./tracker ./scatter ./observe/upkeep \
		./internal/redis/registry ./internal/redis/shards=./expiry ./internal/redis/shards=./pinned ./internal/redis/reqid=./internal/redis/script
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v -run 'TestACL$$|TestLoadWhile' ./conformance ./server
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v ./deploy
	cd tracker/sqltest && MILLRACE_SOAK=1 go test -count=1 -timeout=30m -v -run TestSparseMillion .
	cd examples/outbox && MILLRACE_SOAK=1 go test -race -count=1 -timeout=30m -v -run TestRelay .
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v -run 'TestSilentNode|TestResharding|TestLoss$$' ./conformance
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'Faults|Schedules|Everybody|Restored|EveryStep' ./internal/fleet/failover
	MILLRACE_SOAK=1 go test -race -shuffle=on -count=1 -timeout=2h -v -run 'Anywhere|TwoAt' ./internal/fleet/rebalance
	MILLRACE_SOAK=1 go test -race -count=1 -timeout=2h -v -run TestPowerStorm ./internal/fleet/restored
	MILLRACE_SOAK=1 go test -count=1 -timeout=10m -v -run TestThousandProcesses ./internal/bench
	MILLRACE_SOAK=1 go test -count=1 -timeout=10m -v -run TestThousandClients ./fleet/etcd

bench: deps ## Measure, each figure against its baseline
	cd bench && go run .

lint: ## Run the linters of .golangci.yaml, and look for retired words
	@go test -count=1 -run 'TestWords' ./internal/repo
	@set -e; for module in $(MODULES); do \
		echo "== $$module"; (cd $$module && $(GOLANGCI) run --config $(CURDIR)/.golangci.yaml); done

# An image and signatures need an engine and an identity, which only the release has.
release-check: cyclonedx ## Check what a release needs, and make one in build/dist without publishing it
	@mkdir -p build
	$(ACTIONLINT)
	$(GORELEASER) check
	internal/repo/scripts/release-notes "$$(awk -F '[][]' '/^## \[/ {print $$2; exit}' CHANGELOG.md)" > build/notes.txt
	PATH="$(CURDIR)/build/bin:$$PATH" $(GORELEASER) release --snapshot --clean --skip=docker,sign --release-notes=build/notes.txt

# It writes what the release's programs consist of.
cyclonedx:
	@GOBIN=$(CURDIR)/build/bin go install $(CYCLONEDX)

# VitePress is installed beside what it builds. Its packages run no scripts.
site: ## Build the site of the documentation in build/site/public; it needs npm
	@mkdir -p build/site && cp docs/.vitepress/* build/site/
	cd build/site && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')
