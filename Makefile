# Start with `make demo`, which runs an attack, and `make test`, which runs the fast tests. Needs Linux.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH_VERSION := 2.13.0
# PyTorch's CPU build where no NVIDIA GPU is found: the CUDA build is gigabytes larger. TORCH=cpu or TORCH=cuda decides otherwise.
TORCH ?= $(shell { test -e /dev/nvidiactl || nvidia-smi -L; } >/dev/null 2>&1 && echo cuda || echo cpu)
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# Asks once and waits for seconds. pip would try an index that does not answer for minutes.
ANSWERS = timeout 20 $(BIN)/python -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=5)' 2>/dev/null

# pip compiles modules on one core. Some packages contain templates that are not Python, whose errors do not matter.
COMPILE_ALL = $(BIN)/python -m compileall -q -j 0 -x /tests/ $(VENV)/lib harness attacks >/dev/null 2>&1 || true

# A few files take much longer than the others, so an idle worker takes tests from a busy one.
# Several tests share each core, so a thread pool per process would only cost time.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist worksteal
FAST   = -m "not slow and not long"

.PHONY: help demo reference docs install torch install-dev test test-busy check lint test-all test-long hostile soak bench gpu pictures figures dist wheel-check stranger results lock relock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.installed ## run the baseline attack on the bundled demo target and print its score
	@$(BIN)/harness demo --plain

install: $(VENV)/.installed ## create .venv from the lock file; TORCH=cpu or TORCH=cuda chooses the build of PyTorch

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is required. Run: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV): a few minutes without output, up to 10 on a busy machine …" >&2
	@$(PIP) install --no-compile --require-hashes --no-deps -r requirements.lock
	@$(MAKE) --no-print-directory torch
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) check
	@$(COMPILE_ALL)
	@touch $@
	@echo "installed. Now run: source $(BIN)/activate" >&2

torch: | $(VENV)/bin/python
	@index=; if [ "$(TORCH)" = cpu ]; then \
	  if $(ANSWERS) "$(TORCH_CPU_INDEX)/torch/"; then index="--index-url $(TORCH_CPU_INDEX)"; \
	  else echo "$(TORCH_CPU_INDEX) cannot be reached, so PyTorch comes from pip's usual index (its build for CUDA takes several gigabytes)" >&2; fi; \
	fi; \
	$(PIP) install --no-compile torch==$(TORCH_VERSION) $$index

install-dev: $(VENV)/.installed-dev ## install, and add the tools for tests and checks

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "installing the test tools into $(VENV) …" >&2
	@$(PIP) install --no-compile --require-hashes --no-deps -r requirements-dev.lock
	@$(COMPILE_ALL)
	@touch $@

test: $(VENV)/.installed-dev ## run the fast tests; needs neither bubblewrap nor tmux
	@$(PYTEST) $(FAST)

test-busy: $(VENV)/.installed-dev ## run the fast tests while two processes keep two cores busy
	@spin='while True: pass'; \
	$(BIN)/python -c "$$spin" & first=$$!; $(BIN)/python -c "$$spin" & second=$$!; \
	trap 'kill $$first $$second' EXIT; trap 'exit 130' INT TERM; \
	$(PYTEST) $(FAST); exit $$?

check: lint docs test-all stranger ## check format, lint, types and import contracts, build the docs, run the tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

test-all: $(VENV)/.installed-dev
	HYPOTHESIS_PROFILE=whole $(PYTEST) -m "not long"

test-long: $(VENV)/.installed-dev hostile ## run what `make check` leaves out: tutorials, further inputs, hostile input in every configuration
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m "long or hypothesis"
	$(BIN)/python -m tests.tools.stranger --hostile

hostile: $(VENV)/.installed-dev ## tabulate attempts of hostile attacks and files: each sandbox, with and without namespaces, as two users
	@$(BIN)/python -m tests.hostile.matrix

reference: $(VENV)/.installed-dev ## write the pages of docs/reference/ that come from the code
	@$(BIN)/python -m tests.reference

docs: $(VENV)/.installed-dev ## build the documentation into build/docs; a warning is an error
	@$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs build/docs

soak: $(VENV)/.installed-dev ## kill processes 500 times, fill a disk, set the clock back, mangle 10,000 submissions
	@$(BIN)/python -m tests.soak

bench: $(VENV)/.installed-dev ## measure the figures of docs/explanation/results.md
	@$(BIN)/python -m tests.bench

gpu: $(VENV)/.installed-dev ## run the CUDA tests and measure the engine on one GPU
	@$(BIN)/python -m tests.bench.gpu

dist: $(VENV)/.installed-dev ## build the wheel and the sdist into dist/, and check their metadata
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/twine check --strict dist/*

# Interpreters with which wheel-check installs the wheel, such as PYTHONS="python3.11 python3.13".
PYTHONS ?= $(PYTHON)

stranger: $(VENV)/.installed-dev ## install the wheel as a user without root rights, bubblewrap and tmux, use it, run the tests of the sandbox
	@$(BIN)/python -m tests.tools.stranger

wheel-check: $(VENV)/.installed-dev ## install the wheel into new environments and use it; PYTHONS="python3.11 python3.13"
	@$(BIN)/python -m tests.tools.distribution $(PYTHONS:%=--python %)

results: $(VENV)/.installed-dev ## run every attack on the demo and on the surrogate, and write the table of results
	@$(BIN)/python -m tests.bench.results --write

pictures: $(VENV)/.installed-dev ## draw every screen and page of the docs, and record a first run
	@$(BIN)/python -m tests.pictures

figures: $(VENV)/.installed-dev ## compute the figures and tables of the four sources on the demo, into build/figures
	@rm -rf build/figures
	@$(BIN)/python -m tests.functional.walkthrough docs/development/sources.md build/figures

# torch and the CUDA packages of its builds are not in the lock, because they differ between builds.
UNLOCKED = $(shell sed -nE 's/^(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==.*/\1/p' constraints.txt | grep -v '^nvidia-ml-py$$')
UV := $(if $(wildcard $(BIN)/uv),$(BIN)/uv,uv)
COMPILE := $(UV) pip compile pyproject.toml --extra torch --universal --python-version 3.11 --no-header --no-annotate --quiet

lock: ## resolve the dependencies again; needs uv
	@echo torch==$(TORCH_VERSION) > constraints.txt
	$(COMPILE) --group build --group dev --group docs --upgrade --constraint constraints.txt --output-file constraints.txt
	$(MAKE) relock

relock:
	$(COMPILE) --generate-hashes --group build --constraint constraints.txt $(UNLOCKED:%=--no-emit-package %) --output-file requirements.lock
	$(COMPILE) --generate-hashes --group build --group dev --group docs --constraint constraints.txt $(UNLOCKED:%=--no-emit-package %) --output-file requirements-dev.lock

clean: ## remove .venv, what was built and the caches of the tools
	rm -rf $(VENV) build dist .wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
