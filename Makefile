# Two commands: `make demo` to see it work, `make test` to see that it does.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH_VERSION := 2.13.0
# TORCH=cpu takes PyTorch's own CPU build, for people without a GPU.
TORCH_INDEX := $(if $(filter cpu,$(TORCH)),--index-url https://download.pytorch.org/whl/cpu)

# Few files take much longer than the others, so an idle worker takes over tests that wait at the other.
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal
FAST   = -m "not slow"

.PHONY: help demo install install-dev test test-busy check soak bench pictures dockerfile results lock relock clean
.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.installed ## run the baseline attack on the bundled demo target, and score it
	@$(BIN)/harness demo --plain

install: $(VENV)/.installed ## make .venv from the pinned lock

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV) …" >&2
	@$(PIP) install --require-hashes --no-deps -r requirements.lock
	@$(PIP) install torch==$(TORCH_VERSION) $(TORCH_INDEX)
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) check
	@touch $@

install-dev: $(VENV)/.installed-dev ## … with what tests and checks need

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "installing the tests' tools into $(VENV) …" >&2
	@$(PIP) install --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

test: $(VENV)/.installed-dev ## run the tests, all but the slow ones
	@$(PYTEST) $(FAST)

test-busy: $(VENV)/.installed-dev ## run the same tests while two processes keep both cores busy
	@spin='while True: pass'; \
	$(BIN)/python -c "$$spin" & first=$$!; $(BIN)/python -c "$$spin" & second=$$!; \
	trap 'kill $$first $$second' EXIT; trap 'exit 130' INT TERM; \
	$(PYTEST) $(FAST); exit $$?

check: $(VENV)/.installed-dev ## format, lint, types, import contracts, all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

soak: $(VENV)/.installed-dev ## kill 500 runs' processes, fill a disk, set the clock back, mangle 10,000 submissions
	@$(BIN)/python -m tests.soak

bench: $(VENV)/.installed-dev ## measure what the README puts numbers on
	@$(BIN)/python -m tests.bench

dockerfile: $(VENV)/.installed-dev ## execute the Dockerfile's steps in a fresh Debian: root, debootstrap, bubblewrap
	@$(BIN)/python -m tests.dockerfile Dockerfile -- doctor

results: $(VENV)/.installed-dev ## run every attack on the demo and on surrogate-dev, for the README's table
	@$(BIN)/python -m tests.bench.results --write

pictures: $(VENV)/.installed-dev ## draw the README's pictures of the screen
	@$(BIN)/python -m tests.pictures

# torch brings its own CUDA packages, which differ between its builds: they stay out of the lock.
UNLOCKED = $(shell sed -nE 's/^(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==.*/\1/p' constraints.txt | grep -v '^nvidia-ml-py$$')
COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --no-header --no-annotate --quiet

lock: ## resolve the dependencies anew (needs uv)
	@echo torch==$(TORCH_VERSION) > constraints.txt
	$(COMPILE) --group build --group dev --upgrade --constraint constraints.txt --output-file constraints.txt
	$(MAKE) relock

relock:
	$(COMPILE) --generate-hashes --group build --constraint constraints.txt $(UNLOCKED:%=--no-emit-package %) --output-file requirements.lock
	$(COMPILE) --generate-hashes --group build --group dev --constraint constraints.txt $(UNLOCKED:%=--no-emit-package %) --output-file requirements-dev.lock

clean: ## remove .venv and what tools cached
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
