# Every target is a line of `make help`.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run build test race ci tools sim mutate chaos bench bench-handover bench-rest bench-idle bench-leave bench-faults bench-policies guests lint fmt fmtcheck tidy cover fuzz openapi openapicheck openapi/into

GO          ?= go
GOFUMPT     := $(GO) run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI    := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
SWAG        := $(GO) run github.com/swaggo/swag/cmd/swag@v1.16.6
SEEDS       ?= 200
FUZZTIME    ?= 10s
BENCHTIME   ?= 30s
CHAOSTIME   ?= 2m

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

run: ## serve on 127.0.0.1:7707 from ./permitd-data
	$(GO) run .

build: ## build ./permitd
	CGO_ENABLED=0 $(GO) build -trimpath -o permitd .

test: tools ## run all tests
	$(GO) test ./...

race: tools ## run all tests under the race detector, in random order
	$(GO) test -race -shuffle=on ./...

ci: tidy fmtcheck openapicheck lint race sim ## what CI runs

tools: ## install what tests start, redis-server, nginx, curl and cc, where that may be
	@for tool in redis-server:redis-server nginx:nginx-light curl:curl cc:build-essential; do \
		PATH="$$PATH:/usr/sbin" command -v $${tool%:*} >/dev/null && continue; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $${tool#*:} >/dev/null || exit 1; \
		else \
			echo "the tests need $${tool%:*} (redis-server 7.0 or newer): please install it"; exit 1; \
		fi; \
	done

sim: ## run SEEDS=200 seeds of the simulation
	$(GO) test -count=1 -timeout 0 -run '^TestSimulation' ./engine -sim.seeds=$(SEEDS)

mutate: ## take each rule of the protocol out, and see a test fail (some minutes)
	$(GO) test -count=1 -timeout 0 -tags mutate -run '^TestMutants$$' ./engine

chaos: tools ## kill, stop, cut off and empty real processes for CHAOSTIME=2m, and check what clients were told
	$(GO) run ./deploy/chaos -time $(CHAOSTIME)
	$(GO) run ./deploy/chaos -time $(CHAOSTIME) -partitions

bench: tools ## run the benchmarks, BENCHTIME=30s each
	$(GO) run ./deploy/bench -time $(BENCHTIME)
	$(GO) test -run '^$$' -bench '^BenchmarkBar' -benchtime 10s ./engine/redisnode

bench-handover: tools ## from a release to the next grant over WebSocket, BENCHTIME=30s
	$(GO) run ./deploy/bench -time $(BENCHTIME) handover

bench-rest: ## acquire and release over REST beside an empty Echo handler, BENCHTIME=30s
	$(GO) run ./deploy/bench -time $(BENCHTIME) rest

bench-idle: ## what 9,000 idle holders cost, BENCHTIME=30s
	$(GO) run ./deploy/bench -time $(BENCHTIME) idle

bench-leave: ## cancel or disconnect at the instant of the grant, 100,000 times each way (some minutes)
	$(GO) test -count=1 -timeout 0 -v -run 'AtTheInstantOfTheGrant|CannotBeWritten' ./server -rounds=100000

bench-faults: ## 100,000 cancels at the instant of the grant, 100,000 names that are used once (some minutes)
	$(GO) test -count=1 -timeout 0 -v -run 'TestScheduleCancelAtTheInstantOfTheGrant|TestNamesThatWereUsedOnceLeaveNothing' ./engine -parallel 1 -rounds=100000

bench-policies: tools ## run the benchmarks of policies
	$(GO) test -run '^$$' -bench '^Benchmark(Evaluate|Instantiate|Upload|Scan)' -benchtime 2s ./policies
	$(GO) test -run '^$$' -bench '^BenchmarkSwaps$$' -benchtime 1x -v ./policies
	$(GO) run ./deploy/bench -time $(BENCHTIME) policy

guests: ## rebuild the compiled example policies (clang, lld, rustc with wasm32, npm)
	$(MAKE) -C policies/guests

lint: ## vet, modernizers, staticcheck, golangci-lint
	$(GO) vet ./...
	$(GO) fix -diff ./...
	$(STATICCHECK) ./...
	$(GOLANGCI) run ./...

openapi: ## write the documents in openapi/ anew, from the comments and types of package server
	$(SWAG) fmt -d server -g doc.go
	@$(MAKE) -s openapi/into INTO=openapi

openapicheck: ## fail where make openapi would change a document
	@new=$$(mktemp -d) && $(MAKE) -s openapi/into INTO=$$new && \
		for document in $$new/*; do cmp $$document openapi/$${document##*/} || exit 1; done && rm -rf $$new || { echo "run make openapi"; exit 1; }

openapi/into:
	@swagger=$$(mktemp -d) && $(SWAG) init -q -d server,policies -g doc.go --ot json --requiredByDefault -o $$swagger && \
		$(GO) run ./openapi/generate $$swagger/swagger.json $(INTO) && rm -rf $$swagger

fmt: ## format
	$(GOFUMPT) -l -w .

fmtcheck: ## fail where fmt would change something
	@changed=$$($(GOFUMPT) -l .) && [ -z "$$changed" ] || { echo "make fmt would change:"; echo "$$changed"; exit 1; }

tidy: ## fail where go mod tidy would change something
	$(GO) mod tidy -diff

cover: tools ## coverage of all packages by all tests, in cover.out
	$(GO) test -coverprofile=cover.out -coverpkg=./... ./...
	$(GO) tool cover -func=cover.out | tail -1

fuzz: ## run each fuzz target for FUZZTIME=10s
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done
