# The README's commands. Each sets up what it needs and runs on a fresh Debian or Ubuntu machine that has Rust.
# `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := target/$(shell rustc -vV | sed -n 's/^host: //p')
LAB := $(TARGET_DIR)/debug/fip-lab
SCENARIOS := $(sort $(wildcard lab/scenarios/*.yaml))
# Scenarios mostly wait; three labs at once leave the two cores of a small machine room to be punctual.
JOBS ?= 3

.PHONY: help demo test setup build unit lint lab scenarios crash-matrix release clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: setup build ## the first article's story in the lab, told as a timeline
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

scenarios: build ## every scenario of lab/scenarios (SCENARIOS="a.yaml b.yaml" JOBS=n to choose)
	$(LAB) run --jobs $(JOBS) $(SCENARIOS)

crash-matrix: setup ## the manifest cycle killed, failed and cut off from power at every call (some minutes)
	cargo test -p fip-watchdog --test crash_matrix -- --full

release: ## the static binary as it ships
	cargo build --release --bin fip-watchdog

clean: ## remove build output (the lab's root file system stays in /var/cache/fip-lab)
	cargo clean
