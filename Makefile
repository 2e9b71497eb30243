# `make demo` and `make test` work in a fresh clone; both set .venv up if need be.
.PHONY: help setup demo test check check-extra docs format
.DEFAULT_GOAL := help

help:
	@echo "make demo     raw text to translations and scores, in about 10 minutes"
	@echo "make test     the whole test suite"
	@echo "make check    lint, types and shell scripts"
	@echo "make docs     the documentation as a site, in build/docs"
	@echo "make setup    install everything into .venv"
	@echo "make format   sort imports and format"

setup:
	@scripts/setup.sh

demo: setup
	@examples/demo/run.sh

# A file's tests share what it has trained; the models are too small for more than one thread. In the order of their
# names the long files, of integration, come first: by the number of tests in it, which is xdist's own order, they come
# last, and a core idles while the other one ends them.
test: setup
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/shellcheck --external-sources --source-path=SCRIPTDIR $$(git ls-files '*.sh' '*.sbatch') .ci/run
	@$(MAKE) --no-print-directory check-extra

# What is checked beside lint and types, without setting up: that no import goes upwards.
check-extra:
	.venv/bin/python tests/support/import_floors.py

docs: setup
	.venv/bin/python -m sphinx -W --keep-going -q -c docs . build/docs

format: setup
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
