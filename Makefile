# Every target makes its own environment when there is none: one command is enough on a fresh machine.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   ?= demo

.DEFAULT_GOAL := help
.PHONY: help demo test check test-all test-gpu bench docs format clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pacsent needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP)   ## the main job, end to end, on text made by the paper's own generative model
	$(BIN)/pacsent demo -o $(DEMO)

test: $(STAMP)   ## the fast test suite
	$(BIN)/python -m pytest -m 'not slow and not gpu'

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test-all: $(STAMP) ## everything but the GPU suite: slow tests, and the kernels as plain Python
	$(BIN)/python -m pytest -m 'not gpu'
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m 'not slow and not gpu' tests/test_kernels.py

test-gpu: $(STAMP) ## the GPU suite, for machines that have one
	$(BIN)/python -m pytest -m gpu

bench: $(STAMP)  ## every benchmark beside its rivals (installs them; takes a while)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	for job in train encode solve grid; do $(BIN)/python benchmarks/$$job.py --save || exit 1; done
	$(BIN)/python benchmarks/make_tables.py

docs: $(STAMP)   ## regenerate the tables that are made from result files
	$(BIN)/python benchmarks/make_tables.py

format: $(STAMP) ## format in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis $(DEMO)
