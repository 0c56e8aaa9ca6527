# The two that do everything on a fresh machine: make demo, make test.

BIN     := $(CURDIR)/bin
CLUSTER := $(CURDIR)/.cluster

# What is stamped comes from git alone: the same commit and the same Go give the same bytes.
VERSION           := $(or $(VERSION),$(shell git describe --tags --always 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),-dirty))
COMMIT            := $(or $(COMMIT),$(shell git rev-parse HEAD 2>/dev/null))
SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null))
DATE              := $(or $(DATE),$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%FT%TZ 2>/dev/null || date -u -r $(SOURCE_DATE_EPOCH) +%FT%TZ 2>/dev/null))
GOBUILD           := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X schedule-night/internal/cli.buildVersion=$(VERSION) -X schedule-night/internal/cli.buildCommit=$(COMMIT) -X schedule-night/internal/cli.buildDate=$(DATE)"

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-e2e test-docs vet lint verify vulnerabilities licenses fuzz bench bench-boundary failover fire soak build build-cluster helm cluster-up cluster-down \
	image push sbom release test-release test-programs dist-tool clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## watch Deployments go to sleep and wake up, on a control plane started here
	cd test && CGO_ENABLED=0 go build -o $(BIN)/ ./cmd/demo
	@cd test && $(BIN)/demo $(BIN)/schedule-night $(CURDIR)/deploy

# The last part mostly waits: so what computes, the release, goes on beside it.
PARTS := vet lint verify test-unit fuzz soak test-docs test-release+test-e2e
test: ## everything: vet, lint, dependencies, unit tests with -race, end to end on a real control plane
	@times=; failed=; \
	for part in $(PARTS); do \
		echo "== make $$part"; begun=$$(date +%s); \
		case $$part in \
		test-release+*) $(MAKE) --no-print-directory test-e2e BESIDE=release ;; \
		*) $(MAKE) --no-print-directory $$part ;; \
		esac || failed=$$part; \
		times="$$times $$part $$(($$(date +%s) - begun))"; \
		if [ -n "$$failed" ]; then break; fi; \
	done; \
	echo "== seconds"; \
	printf '%s %s\n' $$times | awk '{ sum += $$2; printf "%-21s %5d\n", $$1, $$2 } END { printf "%-21s %5d\n", "together", sum }'; \
	if [ -n "$$failed" ]; then echo "make $$failed has failed"; exit 1; fi; \
	echo "all tests passed"

# Of the second run, which looks at all that is cached once a second of a test's time: it is
# slow under -race, and so are these, which have hundreds of objects, or no cache at all.
UNWATCHED = Property|Trouble|OneNamespace|WhilePassesFail|Healthy|StaysSmall

test-unit: ## the fast ones
	go test -race -timeout 10m ./...
	KUBE_CACHE_MUTATION_DETECTOR=true go test -timeout 10m -skip '$(UNWATCHED)' ./...

e2e = cd test && SCHEDULE_NIGHT=$(BIN)/schedule-night HELM=$(BIN)/helm go test -timeout 40m -count=1 -parallel 16 -v
# A job writes into a log of its own, and beside it what it ends with, which is 0.
job = { { $(2); } > $(BIN)/$(1).log 2>&1; echo $$? > $(BIN)/$(1).status; } &

test-e2e: build build-cluster helm ## end to end on a real control plane, the nights under fire among it
	@echo "Each of these has a control plane of its own. They mostly wait, and so run at a time."
	@rm -f $(BIN)/*.status; \
	$(if $(BESIDE),$(call job,$(BESIDE),$($(BESIDE)_tests))) \
	$(call job,large,$(e2e) -run InvalidAndLarge ./boundary) \
	$(call job,tenants,$(e2e) -run '^TestTenants$$' ./e2e) \
	$(call job,fire,$(fire) -nights $(NIGHTS) -seed $(or $(filter-out 0,$(SEED)),3)) \
	$(call job,e2e,$(e2e) -p 3 -skip '^TestTenants$$' ./cluster/... ./e2e/... ./install/...) \
	wait; failed=; \
	for job in $(BESIDE) large e2e tenants fire; do \
		cat $(BIN)/$$job.log; [ "$$(cat $(BIN)/$$job.status)" = 0 ] || failed="$$failed $$job"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi
	$(e2e) -p 1 -skip InvalidAndLarge ./failover/... ./boundary/... # these measure, and are alone

test-docs: build ## links, flags, metrics and annotations in the documentation; workflows
	cd test && SCHEDULE_NIGHT=$(BIN)/schedule-night go test -count=1 ./docs/...

# A tool's module pins one program: what it needs stays out of our go.mod. `go tool` builds
# it in the folder that it is called in, once, and runs it there.
MODULES      := $(patsubst %/,%,$(dir $(wildcard go.mod */go.mod */*/go.mod)))
CODE_MODULES := $(foreach m,$(MODULES),$(if $(wildcard $m/*.go $m/*/*.go),$m))
TAGS         := fire,soak
go_tool       = go tool -modfile=$(CURDIR)/tools/$(1)/go.mod

vet: ## go vet and gofmt
	@for dir in $(CODE_MODULES); do echo "$$dir: go vet"; (cd $$dir && go vet -tags $(TAGS) ./...) || exit 1; done
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt'ed: $$unformatted"; exit 1; fi

lint: ## golangci-lint, at the version that tools/lint pins
	@for dir in $(CODE_MODULES); do echo "$$dir: golangci-lint"; (cd $$dir && $(call go_tool,lint) golangci-lint run --allow-parallel-runners --build-tags $(TAGS) ./...) || exit 1; done

verify: vulnerabilities ## what we depend on: intact, tidy, of good licence, without known vulnerabilities; workflows
	@for dir in $(MODULES); do echo "$$dir: go mod verify, go mod tidy -diff"; (cd $$dir && go mod verify && go mod tidy -diff) || exit 1; done
	cd tools/licenses && go test ./... && go build -o $(BIN)/licenses .
	$(BIN)/licenses -check THIRD_PARTY_LICENSES $(PLATFORMS)
	$(call go_tool,actionlint) actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

licenses: ## write THIRD_PARTY_LICENSES anew
	cd tools/licenses && go build -o $(BIN)/licenses .
	$(BIN)/licenses THIRD_PARTY_LICENSES $(PLATFORMS)

VULNDB ?= https://vuln.go.dev
vulnerabilities: ## known vulnerabilities in what the program calls; REQUIRE_VULNDB=true fails if the database is out of reach
	@out=$$($(call go_tool,vuln) govulncheck -db $(VULNDB) . 2>&1); code=$$?; echo "$$out"; \
	case "$$code $$out" in \
	0*) ;; \
	*"fetching vulnerabilities"*) echo "NOT CHECKED for known vulnerabilities: $(VULNDB) is out of reach"; [ "$(REQUIRE_VULNDB)" != true ] ;; \
	*) exit $$code ;; \
	esac

FUZZTIME ?= 10s
fuzz: ## look for texts that the parsers mistake; FUZZTIME=10m for longer
	go test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s ./internal/night
	go test -run '^$$' -fuzz '^FuzzCron$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $(addprefix internal/cli/convert/,week.go week_test.go) # these alone: no client-go to instrument

bench: ## Go benchmarks, for benchstat
	go test -run '^$$' -bench . -benchmem -count $(or $(COUNT),1) . ./internal/...

N       ?= 2000
QPS     ?= -1
WORKERS ?= 16
bench-boundary: build test-programs ## measure a night of N=2000 Deployments; QPS=-1 WORKERS=16 UNANNOTATED=0.5, ROLLOUTS=true for the full control plane
	cd test && $(BIN)/boundary -program $(BIN)/schedule-night -deploy $(CURDIR)/deploy -n $(N) -qps $(QPS) -workers $(WORKERS) -unannotated $(or $(UNANNOTATED),0) -rollouts=$(or $(ROLLOUTS),false) $(if $(PROFILES),-profiles $(abspath $(PROFILES)))

RUNS ?= 3
failover: build test-programs ## measure two replicas while one, its network or the control plane fails; RUNS=3, 5 min each
	cd test && $(BIN)/failover -program $(BIN)/schedule-night -deploy $(CURDIR)/deploy -runs $(RUNS)

NIGHTS ?= 25
SEED   ?= 0
fire    = go test -tags fire -run '^TestFire$$' -count 1 -timeout 0 -v . -args -cluster $(BIN)/cluster
fire: test-programs ## NIGHTS=25 simulated nights in which everything around the controller fails; SEED= to see one again
	$(fire) -nights $(NIGHTS) -seed $(SEED)

SOAK ?= 20s
soak: ## 10,000 passes a second for SOAK=20s: memory and goroutines stay what they are
	go test -tags soak -run '^TestSoak$$' -count 1 -timeout 0 -v . -args -soak $(SOAK)

build: ## the program, in bin/
	$(GOBUILD) -o $(BIN)/schedule-night .

build-cluster: test-programs ## the control plane's programs, into the user's cache; about 12 min once, on two cores
	cd test && $(BIN)/cluster build

test-programs: # each builds what it needs of the control plane, and no more
	cd test && CGO_ENABLED=0 go build -o $(BIN)/ ./cmd/...

# A link into Go's cache, which forgets what is not used for days: this makes it anew.
helm: ## Helm, at the version that tools/helm pins
	mkdir -p $(BIN) && ln -sf "$$($(call go_tool,helm) -n helm)" $(BIN)/helm

cluster-up: test-programs ## start a local control plane; prints its KUBECONFIG
	@cd test && $(BIN)/cluster up $(CLUSTER)

cluster-down: ## stop it
	@$(BIN)/cluster down $(CLUSTER)

# Releases: docs/release.md.
DIST        := $(CURDIR)/dist
IMAGE       ?= schedule-night
RELEASE_URL ?= https://example.com/schedule-night/$(VERSION)
PLATFORMS   ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64

STAMPS       = -version '$(VERSION)' -commit '$(COMMIT)' -date '$(DATE)' -image '$(IMAGE)'
IMAGE_FILE   = $(DIST)/schedule-night_$(VERSION)_image.tar
binaries     = $(foreach p,$(1),$(BIN)/$(subst -,/,$(p))/schedule-night*)
export SOURCE_DATE_EPOCH # for helm

binary-%: # binary-linux-amd64 is bin/linux/amd64/schedule-night
	GOOS=$(firstword $(subst -, ,$*)) GOARCH=$(lastword $(subst -, ,$*)) $(GOBUILD) -o $(BIN)/$(subst -,/,$*)/ .

dist-tool:
	cd tools/dist && go build -o $(BIN)/dist .

image: dist-tool binary-linux-amd64 binary-linux-arm64 ## the image for linux/amd64 and linux/arm64, in dist/; needs no Docker
	$(BIN)/dist image $(STAMPS) -o $(IMAGE_FILE) $(call binaries,linux-amd64 linux-arm64)

push: IMAGE_FILE = $(BIN)/image.tar
push: image ## the same, to a registry: make push IMAGE=registry.example.com/schedule-night
	$(BIN)/dist push $(IMAGE_FILE) $(IMAGE):$(VERSION)

# The SBOM has a checksum of the program that wrote it. `go tool` would build paths of this
# machine into that program; `go run` keeps what it built, too, and takes -trimpath.
sbom: binary-linux-amd64 ## what the program is made of, as CycloneDX JSON, in dist/
	mkdir -p $(DIST)
	CGO_ENABLED=0 go run -modfile=tools/sbom/go.mod -trimpath -buildvcs=false tool bin -json -std -noserial -notimestamp -version $(VERSION) \
		-output $(DIST)/schedule-night_$(VERSION)_sbom.cdx.json $(BIN)/linux/amd64/schedule-night

release: dist-tool ## all of a release page, in dist/: make release VERSION=v1.2.3 IMAGE=registry.example.com/schedule-night
	@$(BIN)/dist check '$(VERSION)'
	@if [ -n "$$(git status --porcelain)" ]; then echo "make release: there are changes that are not committed"; git status --short; exit 1; fi
	@tagged=$$(git rev-parse -q --verify 'refs/tags/$(VERSION)^{commit}' || git rev-parse HEAD); \
	if [ $$tagged != $$(git rev-parse HEAD) ]; then echo "make release: $(VERSION) is the tag of another commit, $$tagged"; exit 1; fi
	rm -rf $(DIST)
	$(MAKE) COMMIT=$(COMMIT) DATE=$(DATE) image sbom $(addprefix binary-,$(PLATFORMS))
	$(BIN)/dist release $(STAMPS) -url '$(RELEASE_URL)' -o $(DIST) $(call binaries,$(PLATFORMS))
	rm -rf $(BIN)/chart && $(BIN)/dist chart '$(IMAGE)' $(BIN)/chart
	$(call go_tool,helm) helm package $(BIN)/chart --version $(VERSION:v%=%) --app-version $(VERSION) -d $(DIST)
	$(BIN)/dist sums $(DIST)

release_tests = cd tools/dist && go test -timeout 30m -count=1 ./...
test-release: ## the image and the release: right, and the same bytes twice
	$(release_tests)

clean: ## remove what was built here
	rm -rf $(BIN) $(DIST)
