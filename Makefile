# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo demo-check test check bench-access install clean help

help: ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED) ## Everything into .venv

$(INSTALLED): pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[bundled,dev]'
	touch $@

demo: $(INSTALLED) ## A stand-in Nextcloud with sample content, and the search page in it
	$(BIN)/python -m demo.run

demo-check: $(INSTALLED) ## The same without a person: asks every question, says what was right
	$(BIN)/python -m demo.check

test: check ## Lint, types, import rules, tests
	$(BIN)/python -m pytest

check: $(INSTALLED) ## Lint, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench-access: $(INSTALLED) ## What a search costs Nextcloud, in requests
	$(BIN)/python -m demo.bench_access

clean: ## Remove what was installed and built
	rm -rf $(VENV) build dist *.egg-info
