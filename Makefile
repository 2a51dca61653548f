# `make` lists what can be made.
#
#   DEMO_ARGS=--exit       the demo stops at its end; without a terminal, or with CI set, it does so anyway (--stay keeps it)
#   BENCH_ARGS=…           arguments of `e2e bench`, such as --quick or --only restart,churn
#   SCALE_ARGS=…           arguments of `e2e scale`, such as --clusters 500 --replicas 3
#   IMAGE_ARGS=…           arguments of `e2e image`, such as --demo, --architecture amd64 or --profile dev
#   SOAK_ARGS=…            arguments of `e2e soak`, such as --minutes 2 --outage-minutes 0.5 or --seed 7
#   SEEDS=500 FROM=1       simulated runs of `make test`, and the first of them; CLEAN_SEEDS=10000 those of `make mutants`
#   FUZZ_SECONDS=60        how long `make fuzz` runs each target
#   E2E_THREADS=3          end-to-end tests at a time; each may start servers of up to 3 GiB

CARGO ?= cargo
DEMO_ARGS ?=
BENCH_ARGS ?=
SCALE_ARGS ?=
IMAGE_ARGS ?=
SOAK_ARGS ?=
E2E_THREADS ?= 3
SEEDS ?= 500
# The same seeds every time: a failure is then due to the change, and not to a new seed.
FROM ?= 1
CLEAN_SEEDS ?= 10000
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := selectors request continue_token bulk_lines json_scanner images quantities reviews scripts argocd_keys search_grammar cost
# Counters for libFuzzer, as cargo-fuzz sets them, but for what needs a nightly toolchain; and a target, so that build scripts have none.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')

# Each file and each folder with a `main.rs` below these is a test program.
test_programs = $(notdir $(basename $(wildcard $(1)/*.rs) $(patsubst %/main.rs,%,$(wildcard $(1)/*/main.rs))))
E2E_TESTS := $(call test_programs,e2e/tests)
OTHER_TESTS := $(foreach folder,tests simulation/tests $(wildcard crates/*/tests libraries/*/tests tools/*/tests),$(call test_programs,$(folder)))

# Where cargo puts the programs. They are built together and then run from there: a package alone would have its dependencies built again,
# with other features.
TARGET = $(or $(CARGO_TARGET_DIR),target)
BUILT = $(TARGET)/debug
RELEASE = $(TARGET)/release
BUILD_SHIPPED = $(CARGO) build --locked --profile dist --package fleetdex --bin fleetdex

STEP = @printf '\n== %s\n'
# Runs a stage and records how long it takes; STAGES prints that.
STAGE = ./.ci/stage
STAGES = awk '{ print; total += $$1 } END { printf "%6d s  in all\n", total }' target/stages

.DEFAULT_GOAL := help
.PHONY: help demo check test migration-test mutants fuzz bench scale dist image soak fmt parts crds chart-docs dashboards metrics-docs images reference docs book deny prerequisites

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: prerequisites ## Three clusters, OpenSearch, Fleetdex: see it work (Ctrl-C stops everything)
	$(STEP) 'building fleetdex (the first time some minutes)'
	$(CARGO) build --locked --workspace --bins
	$(STEP) 'finding or building the real parts (the first time some minutes)'
	$(BUILT)/e2e parts kube-apiserver kubectl etcd helm opensearch
	$(STEP) 'running the demo'
	$(BUILT)/e2e demo $(DEMO_ARGS)

check: ## Format, lints and unit tests, without real parts; fast enough to run after each edit
	@rm -f target/stages
	@$(STAGE) format $(CARGO) fmt --all --check
	@$(STAGE) lints $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(STAGE) 'unit tests' $(CARGO) test --locked --workspace --lib --quiet
	@$(STAGES)

test: MORE_PROGRAMS = curl jq
test: prerequisites ## Everything that has to pass: format, lints, tests, end-to-end tests on real parts
	@rm -f target/stages
	@$(STAGE) format $(CARGO) fmt --all --check
	@$(STAGE) lints $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(STAGE) 'programs and tests' $(CARGO) build --locked --workspace --bins --examples --tests
	@$(STAGE) 'simulation: $(SEEDS) seeds from $(FROM) on' $(BUILT)/simulation run --seeds $(SEEDS) --from $(FROM)
	@$(STAGE) 'real parts' $(BUILT)/e2e parts
	@$(STAGE) 'unit and property tests' $(CARGO) test --locked --workspace --lib --bins $(OTHER_TESTS:%=--test %)
	@$(STAGE) 'documentation tests' $(CARGO) test --locked --workspace --doc
	@for program in $(E2E_TESTS); do \
		$(STAGE) "end-to-end tests: $$program" \
			$(CARGO) test --locked --workspace --test $$program -- --test-threads=$(E2E_THREADS) || exit 1; \
	done
	@$(STAGES)

migration-test: prerequisites ## The migration from karmada-search, from a real one, which takes five minutes to build
	$(CARGO) build --locked --workspace --bins
	$(BUILT)/e2e parts kube-apiserver kubectl etcd opensearch karmada-search
	$(CARGO) test --locked --workspace --test security -- --ignored migration::a_real_karmada_search

mutants: ## Bugs planted one by one, each of which the simulation has to find; then 10,000 seeds without one
	$(CARGO) build --locked --release --package simulation --features planted-bugs
	$(RELEASE)/simulation mutants
	$(RELEASE)/simulation run --seeds $(CLEAN_SEEDS) --from 1

fuzz: prerequisites ## Fuzz selectors, requests, continue tokens, scripts, what members and webhooks send and what it costs, a minute each; needs a C++ compiler
	@for target in $(FUZZ_TARGETS); do \
		printf '\n== fuzzing %s\n' "$$target"; \
		mkdir -p fuzz/artifacts/$$target target/fuzz/corpus/$$target; \
		RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) run --locked --quiet --release --manifest-path fuzz/Cargo.toml --target $(FUZZ_HOST) \
			--target-dir target/fuzz --bin $$target -- target/fuzz/corpus/$$target fuzz/corpus/$$target \
			-artifact_prefix=fuzz/artifacts/$$target/ -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 || exit 1; \
	done

# What is measured is the program as it is shipped, unless FLEETDEX_BIN names another one.
bench scale: export FLEETDEX_BIN ?= $(TARGET)/dist/fleetdex

bench: prerequisites ## Measure; figures go to target/bench/results.json
	$(CARGO) build --locked --release --workspace --bins
	$(BUILD_SHIPPED)
	$(RELEASE)/e2e bench $(BENCH_ARGS)

scale: prerequisites ## Measure what thousands of simulated clusters cost; figures go to target/scale/
	$(CARGO) build --locked --release --workspace --bins
	$(BUILD_SHIPPED)
	$(RELEASE)/e2e scale $(SCALE_ARGS)

dist: ## The program as it is shipped, and its debug information in a file beside it: target/package/
	$(BUILD_SHIPPED)
	@mkdir -p target/package
	objcopy --only-keep-debug $(TARGET)/dist/fleetdex target/package/fleetdex.debug
	objcopy --strip-all --add-gnu-debuglink=target/package/fleetdex.debug $(TARGET)/dist/fleetdex target/package/fleetdex
	@ls -l target/package

image: prerequisites ## The image for x86_64 and aarch64 and the list of its components, without an engine: target/package/; with --demo it is tried out
	$(CARGO) build --locked --workspace --bins
	$(BUILT)/e2e image $(IMAGE_ARGS)

soak: prerequisites ## Writes and random faults for 30 minutes, 10 of them without OpenSearch, then the final comparison (the oracle); figures go to target/soak/results.json
	$(CARGO) build --locked --release --workspace --bins
	$(RELEASE)/e2e soak $(SOAK_ARGS)

fmt: ## Format the code
	$(CARGO) fmt --all

parts: prerequisites ## Find or build every real part in the user's cache folder
	$(CARGO) build --locked --quiet --package e2e --bin e2e
	$(BUILT)/e2e parts

crds: ## Write crds/ from the Rust types
	FLEETDEX_WRITE_CRDS=1 $(CARGO) test --locked --quiet --package fleetdex --test pure crds

chart-docs: ## Write the table of values in docs/chart.md from helm/fleetdex/values.yaml
	FLEETDEX_WRITE_CHART_DOCS=1 $(CARGO) test --locked --quiet --package fleetdex --test pure chart

dashboards: ## Write dashboards/ from the mapping
	FLEETDEX_WRITE_DASHBOARDS=1 $(CARGO) test --locked --quiet --package fleetdex --test pure dashboards

metrics-docs: ## Write docs/metrics.md from the registered metrics
	FLEETDEX_WRITE_METRICS=1 $(CARGO) test --locked --quiet --package fleetdex --test pure metrics::

images: prerequisites ## Write docs/images/ from the web page over the demo's fleet, with Chromium
	$(CARGO) build --locked --workspace --bins
	FLEETDEX_WRITE_IMAGES=1 $(CARGO) test --locked --workspace --test page pictures

reference: ## Write docs/command-line.md and docs/reference-crds.md from the arguments and the schemas
	FLEETDEX_WRITE_REFERENCE=1 $(CARGO) test --locked --quiet --package fleetdex --bin fleetdex --test pure generated

docs: prerequisites ## Write the outputs of commands in README.md and docs/ as they are on the demo's fleet
	$(CARGO) build --locked --workspace --bins
	FLEETDEX_WRITE_DOCS=1 $(CARGO) test --locked --workspace --test page documented_commands

book: prerequisites ## Build the documentation as a book: target/book/index.html
	$(CARGO) test --locked --workspace --test page the_book

deny: ## Check licences, bans and sources of dependencies (needs cargo-deny: cargo install --locked cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

# Programs that no target installs. `e2e parts` checks the version of Java, cargo that of Rust.
prerequisites:
	@missing=''; \
	for program in $(CARGO) cc git go java mvn $(MORE_PROGRAMS); do \
		command -v $$program >/dev/null 2>&1 || missing="$$missing $$program"; \
	done; \
	if [ -n "$$missing" ]; then \
		echo "not found:$$missing. README.md, Prerequisites, says what to install." >&2; \
		exit 1; \
	fi
