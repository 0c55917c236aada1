# Everything a contributor runs. `make` alone lists it. Works with GNU make from 3.81 on, which macOS ships.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV ?= uv

# Stamps carry a checksum of what was installed: a lock that changes sets up anew, a mere checkout does not.
RUNTIME_SUM := $(shell cat pyproject.toml requirements/runtime.lock requirements/llama.lock requirements/*.py | cksum | tr ' ' -)
DEV_SUM := $(shell cksum < requirements/dev.lock | tr ' ' -)
RUNTIME := $(VENV)/.runtime-$(RUNTIME_SUM)
DEV := $(VENV)/.dev-$(RUNTIME_SUM)-$(DEV_SUM)

# Where to look for a Python that is new enough; set PYTHON to choose one.
PYTHONS := $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11)

# Names from Khepri's catalogue; those that are there already are not fetched again.
TEST_MODELS := tiny default

QUESTION := What does this repository do, and where is its main entry point?

.DEFAULT_GOAL := help
.PHONY: help try fast test test-all check lint format eval setup setup-dev model models lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

try: setup model ## set up, fetch the default model, and ask a question about this repository
	@$(BIN)/khepri ask "$(QUESTION)"

fast: setup ## compile the second library for this very processor as well, instead of the ready one for AVX2
	@wheel=$$($(BIN)/python -m requirements.native_wheel --library ik) && \
		$(PIP) install --quiet --no-deps --no-index --force-reinstall "$$wheel"
	@$(BIN)/khepri doctor

test: setup-dev ## run the tests that need no large model
	@$(BIN)/pytest -m "not real_model and not slow"

test-all: setup-dev models ## run all tests, those with real models too (minutes)
	@$(BIN)/pytest

check: lint test ## format, lint, types, import contracts and tests: what a change must pass

lint: setup-dev ## format, lint, types and import contracts only
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: setup-dev ## format the code and repair what the linter can repair
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

eval: setup-dev model ## ask the evaluation questions, do the edit tasks, report both (an hour)
	@$(BIN)/python -m tests.eval --output build/eval.json
	@$(BIN)/python -m tests.eval.edits

setup: $(RUNTIME) ## create .venv and install Khepri into it
setup-dev: $(DEV) ## the same with the tools for development

model: setup ## fetch the default model, unless it is there
	@$(BIN)/khepri models pull

models: setup ## fetch every model that the tests use, unless they are there
	@for name in $(TEST_MODELS); do $(BIN)/khepri models pull "$$name" || exit $$?; done

lock: ## renew the locks (needs uv)
	@command -v $(UV) >/dev/null || { echo "uv is missing; install it with: pipx install uv" >&2; exit 1; }
	$(LOCK) --no-emit-package llama-cpp-python --extra fast pyproject.toml requirements/setup.in \
		-o requirements/runtime.lock
	$(LOCK) --no-emit-package llama-cpp-python --extra fast pyproject.toml requirements/setup.in --group dev \
		-c requirements/runtime.lock -o requirements/dev.lock
	$(LOCK) requirements/native.in -o requirements/native.lock
	$(LOCK) --no-deps requirements/llama.in -o requirements/llama.lock
	$(LOCK) --no-deps requirements/fast.in -o requirements/fast.lock

LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"

clean: ## remove .venv and everything that was made here (models and compiled wheels stay in the user's folders)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find khepri tests requirements -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME):
	@command -v git >/dev/null || { echo "git is missing; Khepri reads repositories with it" >&2; exit 1; }
	@if ! $(PIP) --version >/dev/null 2>&1; then \
		for candidate in $(PYTHONS); do \
			if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
				python=$$candidate; break; \
			fi; \
		done; \
		if [ -z "$${python:-}" ]; then \
			echo "Khepri needs Python 3.11 or newer; none found among: $(PYTHONS)" >&2; \
			echo "Install one, or name it: make try PYTHON=/path/to/python3" >&2; \
			exit 1; \
		fi; \
		echo "creating $(VENV) with $$("$$python" --version)"; \
		"$$python" -m venv --clear $(VENV) || { \
			echo "python -m venv failed; on Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; }; \
	fi
	@wheel=$$($(BIN)/python -m requirements.native_wheel) && \
		echo "installing the locked packages" && \
		$(PIP) install --quiet --require-hashes -r requirements/runtime.lock && \
		$(PIP) install --quiet --no-deps --no-index --force-reinstall "$$wheel" && \
		$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.runtime-* && touch $@

$(DEV): $(RUNTIME)
	@echo "installing the tools for development"
	@$(PIP) install --quiet --require-hashes -r requirements/dev.lock
	@rm -f $(VENV)/.dev-* && touch $@
