# Two commands for a newcomer: `make demo` and `make test`. Both set everything up by themselves.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/

.PHONY: demo test coverage slow soak lint docs bench bench-all clean
# Only the package itself: what `pip install sihash` brings.
demo: $(VENV)/demo-ready
	$(RUN)sihash demo

# Within eight minutes on two cores; no test takes more than 20 s.
test: lint
	$(RUN)pytest -q -n 2 --dist loadgroup --durations=10 -m "not slow"

# The same, with the share of lines that tests reach; it takes twice the time.
coverage: $(VENV)/ready
	$(RUN)pytest -q -n 2 --dist loadgroup -m "not slow" --cov --cov-report=term:skip-covered

# Tests that take longer, on larger data, and the planted bugs.
slow: $(VENV)/ready
	$(RUN)pytest -q -n 2 --dist loadgroup --durations=10 -m slow

# `slow`, and the long runs of the reliability tests: 1,000 kills, 10,000 sequences, 20,000 broken images, a
# minute of load, a sample of mutants. Hours.
soak: slow
	SIHASH_SOAK=1 $(RUN)pytest -q --timeout 7200 tests/database tests/server
	$(RUN)python tests/planted/mutations.py

# The documentation, in site/. A warning is an error.
docs: $(VENV)/ready
	$(RUN)python docs/scripts/command_line.py --check
	NO_MKDOCS_2_WARNING=1 $(RUN)mkdocs build --strict --quiet

lint: $(VENV)/ready
	$(RUN)ruff check src tests benchmarks docs/scripts
	$(RUN)ruff format --check src tests benchmarks docs/scripts
	$(RUN)mypy
	$(RUN)lint-imports

# The figures of the README, in ten minutes: docs/figures.jsonl, and the numbers on the pages.
bench: $(VENV)/ready
	$(RUN)python -m benchmarks.figures --write

# The others, in an hour or two; times mean something on a quiet machine only.
bench-all: bench
	$(RUN)python -m benchmarks.incremental --growth
	$(RUN)python -m benchmarks.incremental --data tiny-imagenet --life
	$(RUN)python -m benchmarks.protocols split
	$(RUN)python -m benchmarks.protocols classes
	$(RUN)python -m benchmarks.protocols stream
	$(RUN)python -m benchmarks.database
	$(RUN)python -m benchmarks.search speed
	$(RUN)python -m benchmarks.churn rounds --items 100000
	$(RUN)python -m benchmarks.service
	$(RUN)python -m benchmarks.service_load
	$(RUN)python -m benchmarks.scale dask
	$(RUN)python -m benchmarks.scale growth
	$(RUN)python -m benchmarks.millions

# Made again whenever what it is made from changes.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/demo-ready

$(VENV)/demo-ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

clean:
	rm -rf $(VENV) build dist site .coverage *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
