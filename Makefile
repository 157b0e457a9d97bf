# Everything a person or CI does here. `make help` lists it; `make demo` and `make test` set up all they need.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := libs/common services cli demo tools samples
SOURCES := $(PACKAGES) libs/client/frontrow/client libs/client/frontrow/worker

# The installer neither downloads a Python nor trusts a bundled CA list, and copies instead of linking
# (caches often sit on another file system).
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := 1
export UV_LINK_MODE := copy
# Compiled once here, so that every start is quick, also where Python may not write bytecode.
export UV_COMPILE_BYTECODE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A home that can't be written (containers, service accounts) must not stop the set-up.
ifneq ($(shell mkdir -p "$$HOME/.cache" 2>/dev/null && test -w "$$HOME/.cache" && echo yes),yes)
export UV_CACHE_DIR := $(CURDIR)/var/cache/uv
export PIP_CACHE_DIR := $(CURDIR)/var/cache/pip
endif

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- environment ---------------------------------------------------------------------------------

.PHONY: check-python
check-python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null || \
	  { echo "Frontrow needs Python 3.11, 3.12 or 3.13 as $(PYTHON); name another one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.bootstrap: requirements/bootstrap.lock | check-python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements/bootstrap.lock
	@touch $@

$(VENV)/.runtime: requirements/runtime.lock pyproject.toml libs/client/pyproject.toml $(VENV)/.bootstrap
	$(BIN)/uv pip install --python $(BIN)/python --no-build --require-hashes -r requirements/runtime.lock
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation --quiet -e libs/client -e .
	$(BIN)/python -m compileall -q libs services cli
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.runtime
	$(BIN)/uv pip install --python $(BIN)/python --no-build --require-hashes -r requirements/dev.lock
	@touch $@

.PHONY: install dev lock
install: $(VENV)/.runtime ## Install what running needs into .venv
dev: $(VENV)/.dev ## Install what developing needs, too
lock: $(VENV)/.dev ## Resolve the dependencies anew (arguments for uv: make lock LOCK="--upgrade-package grpcio")
	tools/lock.sh $(LOCK)

# --- the two commands ----------------------------------------------------------------------------

.PHONY: demo test
demo: $(VENV)/.runtime ## Run the whole chain on the sample input and check what came out
	$(BIN)/python -m demo

# Three beside each other on two cores, since tests of processes and clocks mostly wait; in the order of tests/order.py.
test: lint ## Run every check and every test (pick some: make pytest ARGS="tests/unit -k keyword")
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -q

.PHONY: pytest
pytest: $(VENV)/.dev ## Run the tests that ARGS names, without the checks
	$(BIN)/python -m pytest $(ARGS)

# A real language model server, in an environment of its own.
LLM := .venv-llm
$(LLM)/.ready: requirements/llm.lock $(VENV)/.bootstrap
	$(BIN)/uv venv --quiet --clear --python "$(PYTHON)" $(LLM)
	$(BIN)/uv pip install --quiet --python $(LLM)/bin/python --no-build --no-deps --require-hashes -r requirements/llm.lock
	@touch $@

.PHONY: soak
soak: $(VENV)/.dev $(LLM)/.ready ## Prove each context at length, under faults (less of it: make soak ARGS="--share 0.02")
	$(BIN)/python -m pytest tests/soak/task/test_machine.py -n 2 --dist load -q $(ARGS)
	$(BIN)/python -m pytest tests/soak/task/test_limits.py tests/soak/task/test_storm.py -q $(ARGS)
	$(BIN)/python -m pytest tests/soak/review/test_machine.py -n 2 --dist load -q $(ARGS)
	$(BIN)/python -m pytest tests/soak/review/test_same_bytes.py -q $(ARGS)
	$(BIN)/python -m pytest tests/soak/ingest -q $(ARGS)
	for store in moto seaweedfs; do $(BIN)/python -m pytest tests/integration/ingest -q --store $$store || exit 1; done
	$(BIN)/python -m pytest tests/soak/asr -q $(ARGS)
	$(BIN)/python -m pytest tests/soak/system -q $(ARGS)

# --- checks --------------------------------------------------------------------------------------

# The checks know nothing of each other; types take longest, so they begin first.
CHECKS := check-types check-tests check-secrets check-protos check-stubs check-style check-shape check-imports \
  check-dependencies

.PHONY: lint format protos $(CHECKS)
lint: $(VENV)/.dev ## Check protos, style, types, imports, the tests' own, the shape of the tree, secrets, dependencies
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(CHECKS)

$(CHECKS): $(VENV)/.dev

check-types:
	$(BIN)/mypy $(SOURCES)

# What pytest makes of each file is kept for those who run them, who would each do it all again.
test pytest check-tests: export PYTHONDONTWRITEBYTECODE :=
check-tests:
	@said=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$said"; exit 1; }

check-protos:
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	$(BIN)/python -m tools.breaking

check-stubs:
	$(BIN)/python -m tools.generate --check

check-style:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-shape:
	$(BIN)/python -m tools.shape

check-imports:
	$(BIN)/lint-imports

check-secrets:
	$(BIN)/python -m tools.leaks

check-dependencies:
	$(BIN)/python -m tools.dependencies

# Asks an advisory service, so it needs a network that reaches one: a package that it can't tell about is a failure.
AUDIT := .venv-audit
$(AUDIT)/.ready: requirements/audit.lock $(VENV)/.bootstrap
	$(BIN)/uv venv --quiet --clear --python "$(PYTHON)" $(AUDIT)
	$(BIN)/uv pip install --quiet --python $(AUDIT)/bin/python --no-build --require-hashes -r requirements/audit.lock
	@touch $@

.PHONY: audit
audit: $(AUDIT)/.ready ## Ask for known vulnerabilities of what the locks name (needs a network)
	$(AUDIT)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/runtime.lock -r requirements/dev.lock $(ARGS)

format: $(VENV)/.dev ## Put protos and Python into their one form
	$(BIN)/buf format -w
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format

protos: $(VENV)/.dev ## Regenerate the stubs from the protos
	$(BIN)/python -m tools.generate

# --- measurements --------------------------------------------------------------------------------

# The queues that are measured beside ours get an environment of their own, with the newest Python here: one of
# them needs 3.12. Name another one: make bench BENCH_PYTHON=python3.13
PEERS := .venv-bench
BENCH_PYTHON ?= $(firstword $(foreach candidate,python3.13 python3.12 \
  $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python3 $(HOME)/.pyenv/versions/3.12*/bin/python3) $(PYTHON), \
  $(shell $(candidate) -c 'import sys; print(sys.executable)' 2>/dev/null)))

$(PEERS)/.ready: requirements/bench.lock $(VENV)/.bootstrap
	$(BIN)/uv venv --quiet --clear --python "$(BENCH_PYTHON)" $(PEERS)
	$(BIN)/uv pip install --quiet --python $(PEERS)/bin/python --no-build --no-deps --require-hashes -r requirements/bench.lock
	@touch $@

.PHONY: bench
bench: $(VENV)/.dev $(PEERS)/.ready ## Measure it beside others (a part: make bench ARGS="drain --quick")
	$(BIN)/python -m tests.bench $(ARGS)

.PHONY: clean
clean: ## Remove the environment, caches and everything that ran here
	rm -rf $(VENV) $(PEERS) $(LLM) $(AUDIT) var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
