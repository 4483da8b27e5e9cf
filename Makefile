# Two commands for a newcomer: `make demo` and `make test`. Both set everything up by themselves.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/

.PHONY: demo test soak lint bench clean
demo: $(VENV)/ready
	$(RUN)sihash demo

test: lint
	$(RUN)pytest -q -n 2 --dist loadgroup --durations=10

# The long runs of the same tests: 1,000 kills, 10,000 sequences, 20,000 broken images, a minute of load.
soak: $(VENV)/ready
	SIHASH_SOAK=1 $(RUN)pytest -q --timeout 7200 tests/database tests/server

lint: $(VENV)/ready
	$(RUN)ruff check src tests benchmarks
	$(RUN)ruff format --check src tests benchmarks
	$(RUN)mypy
	$(RUN)lint-imports

bench: $(VENV)/ready
	$(RUN)python -m benchmarks.solvers --ocas
	$(RUN)python -m benchmarks.sih speed
	$(RUN)python -m benchmarks.sih memory
	$(RUN)python -m benchmarks.sih quality
	$(RUN)python -m benchmarks.incremental --growth --stream
	$(RUN)python -m benchmarks.baselines
	$(RUN)python -m benchmarks.database
	$(RUN)python -m benchmarks.search speed
	$(RUN)python -m benchmarks.search first --data all
	$(RUN)python -m benchmarks.service
	$(RUN)python -m benchmarks.scale dask
	$(RUN)python -m benchmarks.scale growth

# Made anew whenever what it is made from changes.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
