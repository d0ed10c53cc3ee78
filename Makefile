# The front door. `make` or `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
NSYSLAB := $(BIN)/nsyslab

##@ Analyse

REPORTS ?= $(or $(wildcard reports/*/*.nsys-rep reports/*/*.sqlite),reports/samples)
.PHONY: analyze
analyze: $(VENV)/.analysis ## Idle-gap reports of your recordings, or of the shipped samples (REPORTS=path, ARGS=...)
	@$(NSYSLAB) analyze $(ARGS) reports

##@ Develop

.PHONY: test
test: $(VENV)/.dev ## Run the tests
	$(BIN)/python -m pytest -n auto $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev ## Linter, formatter, type checker, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: clean
clean: ## Remove what make made (recordings stay)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# An environment is a file that is newer than what it was made from.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.analysis: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.analysis
	$(BIN)/python -m pip install --quiet --group test --group lint
	@touch $@

##@ Help

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
