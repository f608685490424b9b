# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later

PYTHON ?= python3
PORT ?= 8090

# PyTorch from its own index is built for CPUs; PyPI's, our second choice, brings 3 GB of CUDA along.
TORCH := torch==2.13.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help install demo demo-check check test controls leak-hunt bench-access bench-index bench-memory bench-freshness soak crash clean
.DEFAULT_GOAL := help

help: ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED) ## Everything into .venv

$(INSTALLED): pyproject.toml Makefile
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: apt install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or later is needed, and $(PYTHON) is older. Name another: make install PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python's venv module is missing: apt install python3-venv" >&2; exit 1; }
	@echo "Installing into .venv: about 2 GB, some minutes, once"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install -qqq --no-deps --retries 1 --index-url $(TORCH_INDEX) $(TORCH) 2>/dev/null || $(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[bundled,dev]'
	@touch $@

demo: $(INSTALLED) ## A stand-in Nextcloud with sample content, and the search page in it
	$(BIN)/python -m demo.run --port $(PORT)

demo-check: $(INSTALLED) ## The same without a person: asks every question, says what was right
	$(BIN)/python -m demo.check

test: check ## The above, then all tests
	$(BIN)/python -m pytest

check: $(INSTALLED) ## Licences, lint, types, import rules
	$(BIN)/reuse lint --lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

controls: $(INSTALLED) ## Every control with its story, as designed and with the control switched off: three minutes
	PYTHONPATH=. $(BIN)/python tests/controls.py

leak-hunt: $(INSTALLED) ## 200,000 search hits in random worlds, each held against Nextcloud's permissions: half an hour
	PYTHONPATH=. $(BIN)/python tests/leak_hunt.py $(HUNT)

bench-access: $(INSTALLED) ## What a search costs Nextcloud, what it shows after a change, whom it keeps waiting
	$(BIN)/python -m demo.bench_access

bench-index: $(INSTALLED) ## How fast documents come into the index, beside the model alone; memory; requests of a comparison
	$(BIN)/python -m demo.bench_index $(BENCH)

bench-memory: $(INSTALLED) ## Memory while 50,000 small files and ten of 100 MB come into the index: an hour
	$(BIN)/python -m demo.bench_memory $(BENCH)

bench-freshness: $(INSTALLED) ## Seconds from an edit, or a new share, until a search finds it: 400 of them with late and lost webhooks
	PYTHONPATH=. $(BIN)/python tests/freshness.py $(BENCH)

soak: $(INSTALLED) ## Ten minutes of edits, shares, moves, deletes and failures; then nothing may be lost, doubled or grown
	PYTHONPATH=. $(BIN)/python tests/soak.py $(SOAK)

crash: $(INSTALLED) ## kill -9 at every step and 200 random moments; the index must come out as if nothing had been: half an hour
	PYTHONPATH=. $(BIN)/python tests/crash_run.py $(CRASH)

clean: ## Remove what was installed and built
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
