# Every target makes its own environment when there is none: one command is enough on a fresh machine.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
USE    := $(VENV)/.installed-use
DEV    := $(VENV)/.installed-dev
ALL    := $(VENV)/.installed-all
DOCS   := $(VENV)/.installed-docs
DIST   := $(VENV)-dist
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEMO   ?= demo
# compiled when the package is installed: an edit installs it again
KERNELS := hatch_build.py $(wildcard src/pacsent/kernels/*.[ch])
FUZZ_SECONDS ?= 600
TEST_PROCESSES ?= 2
PYTEST  = $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
FAST   := not slow and not extra and not benchmark and not gpu

# Empty: the tests start hundreds of processes, and none should compile the sources again.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help kernels demo test test-levels test-sanitizers check test-rest test-all test-extras test-benchmarks test-gpu coverage changelog fuzz hostile bench check-results pages docs docs-open dist format clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pacsent needs Python 3.11 or newer. Run: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(USE): pyproject.toml $(KERNELS) | $(BIN)/python
	$(PIP) -e '.[report]'
	@touch $@

$(DEV): pyproject.toml $(KERNELS) | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(USE)

# torch first and alone: a later requirement must not replace the pinned version by another
$(ALL): $(DEV)
	$(PIP) -e '.[test-torch]'
	$(PIP) -e '.[dev,test-torch,test-clients,test-s3]'
	@touch $@

kernels:         ## compile the kernels again, after an edited .c or .h
	$(PYTHON) hatch_build.py

demo: $(USE)     ## the main job, end to end: 500 labelled messages, a certified classifier, one page
	$(BIN)/pacsent demo -o $(DEMO) --overwrite

test: $(DEV)   ## the fast tests of every package, in TEST_PROCESSES (2) processes
	$(PYTEST) -m '$(FAST)' --durations 20

check: $(DEV)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test-rest: $(ALL) ## all that `make test` leaves out but the GPU tests
	$(PYTEST) --dist worksteal -m '(slow or extra) and not benchmark and not gpu' --durations 20

test-levels: $(DEV) ## the kernels on each instruction set that this processor has
	for level in $$($(BIN)/python -c 'from pacsent.kernels import library; print(*library.levels())'); do \
	    PACSENT_LEVEL=$$level $(BIN)/python -m pytest tests/kernels -m 'not slow' || exit 1; done

# GCC's runtime must be loaded before Python; tables of the tests lie on the heap, so that reads
# beyond them are seen.
test-sanitizers: $(DEV) ## the kernels' tests with the address and undefined-behaviour sanitizers
	PACSENT_SANITIZE=address,undefined $(BIN)/python hatch_build.py $(VENV)/sanitized
	LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	  PACSENT_LIBRARY="$$(ls $(CURDIR)/$(VENV)/sanitized/_kernels-*)" \
	  $(BIN)/python -m pytest -x -p no:cacheprovider tests/kernels -m 'not slow' \
	  --deselect tests/kernels/test_library.py --deselect tests/kernels/test_build.py

test-all: test test-rest ## everything but the GPU tests and the benchmarks

test-extras: $(DEV) ## what needs Ray, gensim, a browser, ...: each of EXTRAS (all) by itself
	$(BIN)/python scripts/test_extras.py $(EXTRAS)

test-benchmarks: $(ALL) ## every benchmark on tiny generated data
	$(PIP) -e '.[test-gensim,test-static]'
	$(PYTEST) -m benchmark --durations 20

test-gpu: $(ALL) ## the GPU tests, for machines that have one
	$(BIN)/python -m pytest -m gpu

fuzz: $(DEV)   ## damaged files for every reader, for FUZZ_SECONDS (600)
	cd tests && PYTHONPATH=. $(abspath $(BIN))/python -m hostile damaged --seconds $(FUZZ_SECONDS)

hostile: $(DEV) ## wrong calls, commands, requests, servers, folders and signals: counts how they end
	cd tests && PYTHONPATH=. $(abspath $(BIN))/python -m hostile

bench: $(DEV)  ## every benchmark with its baselines (installs the baselines; takes a while)
	$(PIP) -e '.[bench,serve,test-browser]'
	for job in alternatives banking_example printed cold train encode solve certify search serve serve_classifier simulate english encoders classify few_labels solver classify_bounds comparison drift guarantees html_page idf_cost own_posteriors pac_bayes posterior_variance protocol labels label_checking judges judge_leaks judge_fit repeats targets multilingual own_language many_classes scale train_gpu vectors_in_classifier growth cluster; do \
	    $(BIN)/python benchmarks/$$job.py --save || exit 1; done

check-results: ## list the result files of benchmarks that describe an older version of what they measure
	python3 scripts/check_results.py

pages: $(DEV)  ## regenerate the tables, figures and screenshots of the pages (needs chromium)
	$(PIP) -e '.[report,serve,test-browser]' 'matplotlib>=3.9'
	$(BIN)/python docs/make_card.py
	$(BIN)/python docs/make_overview.py
	$(BIN)/python docs/make_items.py
	$(BIN)/python docs/make_paper_figures.py
	$(BIN)/python docs/make_growth_figure.py
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_drift_figure.py
	$(BIN)/python docs/make_labels_figure.py
	$(BIN)/python docs/make_guarantee_figures.py
	$(BIN)/python docs/make_monitor_figures.py
	$(BIN)/python docs/make_accuracy_figures.py
	$(BIN)/python docs/make_architecture.py
	$(BIN)/python docs/make_screenshots.py
	$(BIN)/python docs/make_numbers.py
	$(BIN)/python docs/make_outputs.py

$(DOCS): pyproject.toml | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@ $(USE)

coverage: $(DEV) ## branch coverage of the fast tests, as a table and as a page in $(VENV)/coverage
	$(PIP) 'pytest-cov>=6'
	$(PYTEST) -m '$(FAST)' --cov=pacsent --cov-branch --cov-report=term:skip-covered \
	  --cov-report=html:$(VENV)/coverage --cov-report=json:$(VENV)/coverage.json

changelog: $(DEV) ## the next section of the changelog; with VERSION=0.2.0 it is written
	$(PIP) 'towncrier>=24'
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

docs: $(DOCS)  ## build the site (docs/_build/html), gallery included; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

docs-open: docs  ## build the site and open it in a browser
	$(BIN)/python -m webbrowser -t docs/_build/html/index.html

$(DIST)/.installed: hatch_build.py
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check build twine 'hatchling>=1.25' \
	  "$$($(DIST)/bin/python -c 'import hatch_build; print(hatch_build.ZIG)')"
	@touch $@

dist: $(DIST)/.installed ## wheels of all platforms and source archive; checks them, uses that of this machine
	rm -rf dist
	$(DIST)/bin/python scripts/build_dist.py
	$(DIST)/bin/python -m twine check --strict dist/*
	$(DIST)/bin/python scripts/check_dist.py
	$(DIST)/bin/python scripts/try_wheel.py

format: $(DEV) ## format in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## remove the environment, caches and the compiled kernels
	rm -f src/pacsent/kernels/_kernels-*
	rm -rf $(VENV) $(DIST) .pytest_cache .mypy_cache .ruff_cache .hypothesis $(DEMO) docs/_build docs/api docs/gallery dist
