# The README's commands. Each sets up what it needs and runs on a fresh Debian or Ubuntu machine that has Rust.
# `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := target/$(shell rustc -vV | sed -n 's/^host: //p')
LAB := $(TARGET_DIR)/debug/fip-lab
SCENARIOS := $(sort $(wildcard lab/scenarios/*.yaml))
# Scenarios mostly wait: five labs keep two cores half busy.
JOBS ?= 5
# Simulated schedules, and the first seed.
SEEDS ?= 100000
FROM ?= 0
# The model check: how long, on how many cores.
MODEL_SECONDS ?= 600
MODEL_THREADS ?= 2
# The fuzzer: how long.
FUZZ_SECONDS ?= 600

.PHONY: help demo demo-lab simulate pauses test setup build unit lint cases scenarios observe crash-matrix model bench fuzz fuzz-keep mutants mutants-decision release install clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: ## the first article's story, told as a timeline: in the lab, or from the simulation where no lab can run
	@if why=$$(scripts/can-lab); then \
	  $(MAKE) --no-print-directory demo-lab; \
	else \
	  echo "demo: the lab cannot run here: $$why"; \
	  echo "demo: this is the same story from the simulation, in virtual time"; \
	  scripts/setup build; \
	  cargo run --quiet -p fip-sim -- story first-article; \
	fi

demo-lab: setup build
	$(LAB) run lab/scenarios/first-article.yaml

test: setup lint unit scenarios ## everything: style, unit and property tests, every scenario on three real nodes

setup: ## install what is missing (Debian and Ubuntu)
	@scripts/setup

build:
	cargo build --workspace --bins

unit:
	cargo test --workspace

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

cases: ## the table of golden cases (tests/cases): what each must come to, and did (CASE=07 for some of them)
	cargo test --quiet -p fip-watchdog --test golden every_case -- --nocapture

scenarios: build ## every scenario of lab/scenarios (SCENARIOS="a.yaml b.yaml" JOBS=n to choose)
	$(LAB) run --jobs $(JOBS) $(SCENARIOS)

observe: setup build ## every scenario in observe mode, each write, netlink change and frame counted from outside (JOBS=n)
	$(LAB) run --observe --jobs $(JOBS) $(SCENARIOS)

crash-matrix: setup ## the manifest cycle killed, failed and cut off from power at every call (some minutes)
	cargo test -p fip-watchdog --test crash_matrix -- --full

simulate: ## SEEDS=n whole clusters in virtual time, faults by seed, invariants after each event (two cores: 100,000 in ten minutes)
	cargo build --profile sim -p fip-sim
	$(TARGET_DIR)/sim/fip-sim --seeds $(SEEDS) --from $(FROM) --kept sim/kept.txt

pauses: ## pauses of 20, 60 and 600 s of node, loop, watchdog and etcd, at 50 phases each, in virtual time
	cargo build --profile sim -p fip-sim
	$(TARGET_DIR)/sim/fip-sim pauses

model: ## the decision core of three nodes against every fault, for MODEL_SECONDS (600) on MODEL_THREADS (2)
	cargo run --profile sim -p fip-model -- $(MODEL_SECONDS) $(MODEL_THREADS)

bench: ## the heartbeat parser: MB/s and allocations
	cargo bench --profile sim --bench beats -- --min-time 3

# The fuzzer needs a nightly compiler and is no part of `make test`, which tries the inputs of fuzz/kept again. It writes to fuzz/corpus.
# No sanitizer: the parser has no unsafe code. fuzz/check.rs bounds its memory.
FUZZ := cargo +nightly fuzz run --sanitizer none beats

fuzz: fuzz-tool ## FUZZ_SECONDS (600) of random logs in random pieces for the heartbeat parser; needs a nightly toolchain
	mkdir -p fuzz/corpus/beats
	$(FUZZ) fuzz/corpus/beats fuzz/kept -- -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -timeout=20 -dict=fuzz/beats.dict -print_final_stats=1

fuzz-keep: fuzz-tool ## keeps in fuzz/kept what of fuzz/corpus reaches further code
	mkdir -p fuzz/corpus/beats
	$(FUZZ) fuzz/kept fuzz/corpus/beats -- -merge=1 -use_counters=0 -max_len=8192

mutants: ## which changes of the heartbeat sensor its tests do not notice (a quarter of an hour; PARSED=src/sensor/heartbeat/trace.rs for one file)
	scripts/part-mutants heartbeat $(PARSED)

# The random histories and the model check are left out for speed.
mutants-decision: ## the same for the decision core (half an hour; DECIDED=src/decision/judge.rs for one file)
	scripts/part-mutants decision $(DECIDED)

.PHONY: fuzz-tool
fuzz-tool:
	@rustup run nightly rustc --version >/dev/null || { echo "fuzz: needs a nightly toolchain: rustup toolchain install nightly" >&2; exit 1; }
	@cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked

release: ## the static binary as it ships
	cargo build --release --bin fip-watchdog

PREFIX ?= /usr
install: ## install what `make release` built (DESTDIR=, PREFIX=)
	install -Dm0755 $(TARGET_DIR)/release/fip-watchdog $(DESTDIR)$(PREFIX)/bin/fip-watchdog
	install -Dm0644 systemd/fip-watchdog.service $(DESTDIR)$(PREFIX)/lib/systemd/system/fip-watchdog.service
	install -Dm0644 systemd/fip-watchdog.catalog $(DESTDIR)$(PREFIX)/lib/systemd/catalog/fip-watchdog.catalog
	install -d $(DESTDIR)/etc/fip-watchdog $(DESTDIR)$(PREFIX)/share/doc/fip-watchdog/policies
	install -m0644 policies/*.yaml $(DESTDIR)$(PREFIX)/share/doc/fip-watchdog/policies/
	$(TARGET_DIR)/release/fip-watchdog man --out $(DESTDIR)$(PREFIX)/share/man/man8
	test -n "$(DESTDIR)" || { journalctl --update-catalog; systemctl daemon-reload; }

clean: ## remove build output (the lab's root file system stays in /var/cache/fip-lab)
	cargo clean
