# The front door. `make` or `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
NSYSLAB ?= $(BIN)/nsyslab

##@ Analyse

# Yours are the folders of reports/ that the repository does not ship.
OWN := $(filter-out reports/samples/ reports/h200/ reports/gallery/ reports/html/,$(wildcard reports/*/))
REPORTS ?= $(or $(OWN),reports/samples)
PAGES ?= reports/html

.PHONY: analyze
analyze: $(VENV)/.analysis ## Idle-gap reports of your recordings, or of the samples (REPORTS=path ARGS=...)
	@$(NSYSLAB) analyze $(ARGS) --html $(PAGES) $(REPORTS)

##@ Container

# Recording runs in the container where docker or podman answers, else on this machine where nsys is
# found; RUNNER=container or RUNNER=host chooses. docker/run.sh tells the other variables.
LADDER ?= d2h
LAB := docker/run.sh

.PHONY: list
list: $(VENV)/.analysis ## The workloads
	@$(NSYSLAB) list $(ARGS)

.PHONY: run
run: ## Run a workload without the profiler (WORKLOAD=d2h_async, ARGS="--steps 20")
	@$(LAB) nsyslab run $(or $(WORKLOAD),$(error WORKLOAD=name is missing; make list has the names)) $(ARGS)

.PHONY: profile
profile: ## Record a workload under nsys (WORKLOAD=d2h_async)
	@$(LAB) nsyslab profile $(or $(WORKLOAD),$(error WORKLOAD=name is missing; make list has the names)) $(ARGS)

.PHONY: ladder
ladder: ## Run and record every rung of a ladder, one table (LADDER=d2h)
	@$(LAB) nsyslab ladder $(LADDER) $(ARGS)

.PHONY: gui
gui: ## Open the newest report in the Nsight Systems GUI (WORKLOAD=d2h_async)
	@docker/gui.sh $(WORKLOAD)

.PHONY: shell
shell: ## A shell in the recording container
	@RUNNER=container $(LAB) bash

.PHONY: notebook
notebook: ## Jupyter Lab in a container, on http://127.0.0.1:8888
	@$(LAB) --image notebook

.PHONY: image
image: ## Build the images (IMAGES="lab analysis notebook", EXTRA_BUILD_ARGS="...")
	docker/build.sh $(IMAGES)

.PHONY: test-image
test-image: $(VENV)/.dev ## Build the images from a bare Debian, without CUDA, and record and analyse in them
	tests/container/install.sh
	$(BIN)/python -m pytest -v -n 2 --dist loadfile \
		$(addprefix tests/container/check_,images.py install_nsys.py default.py layers.py) $(ARGS)

.PHONY: host-environment
host-environment: $(VENV)/.workloads # For docker/run.sh on a machine without an engine

$(VENV)/.workloads: pyproject.toml $(VENV)/.analysis
	$(BIN)/python -m pip install --quiet --editable '.[workloads]'
	@touch $@

##@ Develop

# Tests that record need an nsys that works; docker/install-nsys.sh installs one. CI sets NSYS_TESTS=1.
NSYS_TESTS ?= $(if $(shell command -v nsys),1,0)

.PHONY: test
test: $(VENV)/.dev ## Run the tests (those that record, where nsys is found)
	$(BIN)/python -m pytest -n auto -m "not torch and not browser$(if $(filter 0,$(NSYS_TESTS)), and not nsys)" $(ARGS)
	@$(if $(filter 0,$(NSYS_TESTS)),echo "nsys is not installed: tests that record were left out (docker/install-nsys.sh)")


.PHONY: test-browser
test-browser: $(VENV)/.dev ## Open the pages, and traces in Perfetto, in Chromium (installs it on Debian and Ubuntu)
	$(BIN)/python -m pip install --quiet --group browser
	tests/browser/install.sh
	$(BIN)/python -m pytest -m browser tests/browser $(ARGS)

.PHONY: test-workloads
test-workloads: .venv-torch/.done ## Run the workloads small, on the CPU (installs torch on first use)
	.venv-torch/bin/python -m pytest -n auto -m "torch$(if $(filter 0,$(NSYS_TESTS)), and not nsys)" tests/workloads tests/container/test_shared_memory.py $(ARGS)

.venv-torch/.done: pyproject.toml
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --upgrade pip
	.venv-torch/bin/python -m pip install --quiet --editable '.[workloads]' --group test
	@touch $@

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

.PHONY: docs
docs: $(VENV)/.dev ## Write docs/cli.md from the commands' help
	$(BIN)/python docs/generate_cli.py

.PHONY: bench
bench: $(VENV)/.dev ## Time and memory of the whole command on large traces (ARGS=--large)
	$(BIN)/python benchmarks/run.py $(ARGS)

.PHONY: clean
clean: ## Remove what make made (recordings stay)
	rm -rf $(VENV) .venv-torch build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

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
