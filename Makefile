# Each target first brings .venv to the lock. `make run` needs python3 (3.11 or newer) with venv, and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := run
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-faults test-browser test-slow check bench lock rows

run: .venv/run.stamp
	@exec $(BIN)/python -m config.supervisor

test: .venv/dev.stamp
	$(BIN)/pytest -q -n 2 -m "not faults and not browser and not slow"

test-faults: .venv/dev.stamp
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "faults" tests

test-browser: .venv/dev.stamp
	@scripts/install_chromium
	$(BIN)/pytest -q -n 2 -m "browser" tests

test-slow: .venv/dev.stamp
	$(BIN)/pytest -q -m "slow" tests

check: .venv/dev.stamp
	@scripts/check

bench: .venv/dev.stamp
	$(BIN)/python -m bench

# The only target that asks the package index for something new.
lock: .venv/dev.stamp
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/run.in -o requirements/run.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/dev.in -o requirements/dev.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/rows.in -o requirements/rows.txt
	for sdk in openai-1 openai-2; do $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/$$sdk.in -o requirements/$$sdk.txt; done
	$(BIN)/uv pip compile -q --python-version 3.12 --generate-hashes --no-header --no-annotate requirements/focus-validator.in -o requirements/focus-validator.txt

# After a change of routing/domain/jsonl/rows.c: compiles it to the WebAssembly that is in the tree.
rows: .venv/dev.stamp
	@scripts/build_rows

.venv/run.stamp: requirements/run.txt
	@scripts/install run

.venv/dev.stamp: requirements/dev.txt .venv/run.stamp
	@scripts/install dev
