# Every target does its own set-up, and all share one build: one profile (`--release`), one set of
# targets (`--bins --tests`, so that features are the same), and warnings denied by the tools that
# report them, never by RUSTFLAGS, which would build every dependency again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

BIN := $(abspath $(or $(CARGO_TARGET_DIR),target))/release/tanist
SIM := cargo test --release --locked --no-default-features --test sim
BUILD := cargo build --release --locked --bins --tests
CARGO_DENY := 0.20.2

.PHONY: help demo test sim chaos fuzz check audit bench build setup rocksdb deny

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

demo: rocksdb ## show what Tanist promises, with real processes, in under a minute
	@$(BUILD)
	@$(BIN) demo $(ARGS)

test: rocksdb ## run all tests
	@.ci/setup test
	cargo test --release --locked
	tests/python/run

sim: setup ## run SEEDS of the simulator, from FIRST on, or for DURATION seconds; SEED=n LINES=m runs one again
	@$(SIM) $(if $(SEED),replay,seeds) -- --nocapture

chaos: rocksdb ## storms of DURATION seconds on NODES nodes (3 or 5; both, if left out), from SEED on
	@.ci/setup test
	CHAOS_SECONDS=$(DURATION) CHAOS_NODES=$(NODES) CHAOS_SEED=$(SEED) \
		cargo test --release --locked --test processes chaos -- --nocapture --test-threads 1

fuzz: setup ## look for inputs that break a rule, for DURATION seconds over all targets; SEED=n, ARGS=--keep
	@tests/fuzz/run $(ARGS) $(or $(DURATION),60)

check: rocksdb deny ## formatting, lints, documentation, dependencies, features
	cargo fmt --all --check
	cargo clippy --release --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps --lib
	.ci/check-features
	cargo deny --locked check --hide-inclusion-graph licenses bans sources

audit: setup deny ## known flaws of the dependencies; fetches the database of advisories
	cargo deny --locked check advisories

bench: rocksdb ## measure throughput and latency
	cargo bench --profile release --locked --bench '*' -- $(ARGS)

build: rocksdb ## build the binary; the last line of output is its path
	@$(BUILD)
	@echo $(BIN)

# Packages of the system that the build needs and that are missing.
setup:
	@.ci/setup

# RocksDB's C++ is most of the first build; this makes it short.
rocksdb: setup
	@.ci/build-rocksdb

# Any version will do. In a target folder of its own, so that ours holds one build.
deny: setup
	@cargo deny --version >/dev/null 2>&1 || \
		env -u CARGO_TARGET_DIR cargo install cargo-deny --locked --version '=$(CARGO_DENY)'
