# The commands of this repository. Works with GNU make 3.81 (macOS) and later.
#
#   make VENV=... CONSTRAINTS=... PYTHON=...   other places and versions
#   make test ARGS="-k loops -x"               ARGS go to the program behind a target
#   make test PROFILE=full                     what is tried: quick, rest, full or long (see CONTRIBUTING.md)

VENV        ?= .venv
CONSTRAINTS ?= constraints.txt
PROFILE     ?= quick
ARGS        ?=

# A program that is started a thousand times should be compiled once.
unexport PYTHONDONTWRITEBYTECODE

BIN  := $(VENV)/bin
HOME_OF_RUNS := $(CURDIR)/.noetl

# The newest Python that is good enough. A name may exist and not run (a version manager's shim): try it.
GOOD   := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	if "$$name" -c '$(GOOD)' >/dev/null 2>&1; then echo "$$name"; break; fi; done)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(BIN)/.ready-examples ## Make the virtual environment and install NoETL into it
	@echo "Ready: $(BIN)/noetl"

.PHONY: run
run: $(BIN)/.ready-examples ## Start the whole stack, run the examples through it, stop everything
	@NOETL_HOME="$${NOETL_HOME:-$(HOME_OF_RUNS)}" $(BIN)/python examples/run.py $(ARGS)

# Tests with stacks wait, for servers and for what must not happen: more at a time than there are processors keep these
# busy. The quick ones wait little, and each process has imported NoETL. Those of a file share what they start.
# pytest exits with 5 where ARGS choose none.
ABREAST ?= $(if $(filter quick,$(PROFILE)),3,4)
.PHONY: test
test: $(BIN)/.ready-test ## Run the tests, on SQLite and on a real PostgreSQL and a real Redis
	@NOETL_TEST_PROFILE=$(PROFILE) $(BIN)/pytest --durations=20 -n $(ABREAST) --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: check
check: check-code check-house ## Lint, types, import contracts, rules of the tests, the site of the documentation

# Two parts of the same length: `make -j2 check`.
.PHONY: check-code check-house
check-code: $(BIN)/.ready-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check-house: $(BIN)/.ready-check
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/house
	$(BIN)/properdocs build

.PHONY: format
format: $(BIN)/.ready-check ## Let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(BIN)/.ready-check ## Write docs/tools/ and docs/diagnostics.md from the program
	$(BIN)/python docs/generate.py

.PHONY: docs-site
docs-site: $(BIN)/.ready-check ## Build site/ from docs/, and fail where a link leads nowhere
	$(BIN)/properdocs build
	@echo "Read it: site/index.html"

.PHONY: bench
bench: $(BIN)/.ready-test ## Measure, paired with raw Celery on the same Redis (see benchmarks/)
	$(BIN)/python -m benchmarks.run $(ARGS)
	$(BIN)/python -m benchmarks.report

.PHONY: clean
clean: ## Remove what builds, tests and runs left (not the environment)
	rm -rf build dist site ./*.egg-info .noetl .noetl-out .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# An environment is ready when its stamp is younger than what it was installed from.

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "NoETL needs Python 3.11 or later, and none was found on PATH." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; }
	@"$(PYTHON)" -c '$(GOOD)' || { echo "$(PYTHON) cannot be used: NoETL needs Python 3.11 or later." >&2; exit 1; }
	@echo "Making $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make a virtual environment (Debian: apt-get install python3-venv)." >&2; \
		rm -rf $(VENV); exit 1; }

# What was installed for more is good for less.
# Without --no-compile pip spends half of its time on byte code of modules that nobody imports.
# A clone from before the distribution was called noetl-celery is installed as `noetl`, and would own the same files.
INSTALL = @echo "Installing NoETL with $(1) (about a minute, once)"; \
	$(BIN)/python -m pip uninstall --quiet --yes --disable-pip-version-check noetl 2>/dev/null; \
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c $(CONSTRAINTS) -e '.[$(1)]' && touch $@

# Compiled here once, and not in each of the processes that run tests side by side.
COMPILE = @$(BIN)/pytest -q --collect-only >/dev/null 2>&1 || :

$(BIN)/.ready-examples: setup.py setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(call INSTALL,examples)

$(BIN)/.ready-test: setup.py setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(call INSTALL,examples$(comma)test)
	$(COMPILE)
	@touch $(BIN)/.ready-examples

$(BIN)/.ready-check: setup.py setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(call INSTALL,examples$(comma)test$(comma)check$(comma)docs)
	$(COMPILE)
	@touch $(BIN)/.ready-examples $(BIN)/.ready-test

comma := ,
