# Each target makes its own environment in the checkout. PYTHON chooses the interpreter. Groups of
# pyproject.toml are installed by pip 25.1 and later.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
PIP = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check
MAKE_ENV = $(PYTHON) -m venv $(@D) && $(PIP) 'pip>=25.1' && $(PIP)
PYTEST = .venv-test-$(VERSION)/bin/python -m pytest --numprocesses=2 --dist=worksteal

.PHONY: demo test test-all test-long lint docs docs-fresh benchmark dist clean

demo: .venv-demo-$(VERSION)/ready
	.venv-demo-$(VERSION)/bin/python -m numpyro_contour

test: .venv-test-$(VERSION)/ready
	$(PYTEST) -m 'not slow and not long' tests README.md

test-all: .venv-test-$(VERSION)/ready
	$(PYTEST) -m 'not long'

test-long: .venv-test-$(VERSION)/ready
	$(PYTEST) -m long tests

lint: .venv-lint-$(VERSION)/ready
	.venv-lint-$(VERSION)/bin/ruff check .
	.venv-lint-$(VERSION)/bin/ruff format --check .
	.venv-lint-$(VERSION)/bin/mypy

docs: .venv-docs-$(VERSION)/ready
	.venv-docs-$(VERSION)/bin/python -m pytest README.md docs/arviz.md docs/diagnose.md docs/several_modes.md numpyro_contour
	.venv-docs-$(VERSION)/bin/sphinx-build --fail-on-warning -b html docs site

docs-fresh:
	rm -rf .docs-cache
	$(MAKE) docs

benchmark: .venv-benchmark-$(VERSION)/ready
	.venv-benchmark-$(VERSION)/bin/python -m benchmarks

dist: .venv-release-$(VERSION)/ready
	rm -rf dist
	.venv-release-$(VERSION)/bin/python -m build
	.venv-release-$(VERSION)/bin/twine check --strict dist/*

.venv-demo-$(VERSION)/ready: pyproject.toml
	$(MAKE_ENV) --editable '.[demo]'
	touch $@

.venv-test-$(VERSION)/ready: pyproject.toml
	$(MAKE_ENV) --editable '.[plots,io]' --group test
	touch $@

.venv-lint-$(VERSION)/ready: pyproject.toml
	$(MAKE_ENV) --editable . --group lint
	touch $@

.venv-docs-$(VERSION)/ready: pyproject.toml
	$(MAKE_ENV) --editable '.[plots,io]' --group docs
	touch $@

.venv-benchmark-$(VERSION)/ready: pyproject.toml
	$(MAKE_ENV) --editable '.[plots,io]' --group benchmark
	touch $@

.venv-release-$(VERSION)/ready: pyproject.toml
	$(MAKE_ENV) --group release
	touch $@

clean:
	rm -rf .venv-* .jax-cache .docs-cache site demo-output dist
