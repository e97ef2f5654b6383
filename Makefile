# make demo           trace something, or run it in the VM where the kernel does not let us
# make test           run all tests (ARGS="tests/isa -q" for some)
# make check          format, lint, types, layers
# make test-kernels   run the tests that need a kernel in Debian kernels under QEMU
# make bench          measure, beside bpftrace where there is one (ARGS="--quick cost" for a part)
# make lists          write the modules on disk into setup.py and meson.build
# make clean          remove what the others made, but for the unpacked kernels and Debian

# The first of these that runs and is new enough: a python3 may be older, a shim may lead nowhere.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)
KERNELS ?= 6.1 7.3
# Where tests are that need a kernel, and how they run in one: CPUs and markers in, status out.
# With ARGS there may be none of them (pytest's status 5).
IN_GUESTS = tests/guest tests/kernel $(shell grep -rl --include='test_*.py' mark.kernel tests)
in-guest = $(BIN)/python tools/guest.py run $$kernel --cpus $(1) -- \
	python -m pytest --timeout=600 -m "$(2)" $(or $(ARGS),$(IN_GUESTS)) || test $$? = 5
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install
ADVICE := apt-get install build-essential python3-dev python3-venv

.PHONY: demo test check test-kernels bench lists venv clean

demo: $(VENV)/.installed
	@PYTHON=$(BIN)/python sh examples/demo.sh

test: $(VENV)/.tools
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: $(VENV)/.tools
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-logo
	@# mypy says nothing of modules that it did not find: count those that it did.
	@modules=$$(find -L pybpf -name '*.py' -o -name '*.pyi' | wc -l); \
		report=$$($(BIN)/mypy); status=$$?; echo "$$report"; test $$status = 0 || exit 1; \
		case "$$report" in *" in $$modules source files"*) ;; \
		*) echo "there are $$modules modules in pybpf"; exit 1;; esac

test-kernels: $(VENV)/.tools
	$(BIN)/python tools/guest.py fetch $(KERNELS)
	@# What is slow when emulated is done before, or not: to compile, to collect all tests.
	@$(BIN)/python tools/objects.py --each build/objects || true
	@export PYBPF_OBJECTS=build/objects; for kernel in $(KERNELS); do \
		echo "--- Linux $$kernel"; \
		$(call in-guest,2,(kernel or guest) and not one_cpu) || exit 1; \
		$(call in-guest,1,one_cpu) || exit 1; \
	done

bench: $(VENV)/.installed
	@$(BIN)/python benchmarks/run.py $(ARGS)

lists:
	$(PYTHON) tools/lists.py

venv: $(VENV)/.tools

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found: $(ADVICE)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments: $(ADVICE)"; exit 1; }
	@$(PYTHON) -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' \
		2>/dev/null || { echo "Python.h of $(PYTHON) is missing: $(ADVICE)"; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null \
		|| { echo "no C compiler found: $(ADVICE)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: setup.py pyproject.toml $(wildcard src/*.*) | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.tools: requirements-dev.txt $(VENV)/.installed
	$(PIP) --requirement requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) build builddir dist *.egg-info pybpf/_bpf_syscall.*.so
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
