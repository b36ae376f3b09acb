# make demo, check, test, test-slow, test-ray, fuzz, bench or results: each sets up what it needs.
PYTHON ?= python3
VENV := .venv
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable
PACKAGE := $(VENV)/.set-up
TOOLS := $(VENV)/.set-up-dev

.PHONY: setup demo check test test-slow test-ray fuzz bench results clean

# What a developer needs: the package, what tests it, Ray and TensorBoard. The demo needs the package alone.
setup: $(TOOLS)

# Each is renewed only when the package's metadata has changed.
$(PACKAGE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

$(TOOLS): $(PACKAGE)
	$(INSTALL) '.[test,ray,tensorboard,tree,pinball]'
	touch $@

demo: $(PACKAGE)
	rm -rf runs/demo
	$(VENV)/bin/asap train two-rooms --seeds 4 --episodes 2000 --out runs/demo
	$(VENV)/bin/asap explain runs/demo
	$(VENV)/bin/asap plot runs/demo

# Format, lint and types: half a minute.
check: setup
	$(VENV)/bin/ruff format --check src tests bench examples
	$(VENV)/bin/ruff check src tests bench examples
	$(VENV)/bin/basedpyright --pythonpath $(VENV)/bin/python

# Two workers, each with half of the files: what a file has trained and compiled serves all of its tests.
test: setup
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal --ignore tests/test_ray_network.py

# Whole examples and further cases, which `make test` leaves out. No test at all is no failure (exit code 5).
test-slow: setup
	$(VENV)/bin/python -m pytest -n 2 -m slow || [ $$? -eq 5 ]

# Workers on Ray: two minutes of clusters that start and fall apart, in a network namespace of their own.
test-ray: setup
	$(VENV)/bin/python -m pytest -p no:xdist tests/test_ray_network.py

# Damaged files, odd settings and rude environments: `make fuzz SECONDS=1800` for longer than five minutes. What breaks a
# promise is written to tests/data/fuzz, and `make test` tries it again from then on.
SECONDS ?= 300
fuzz: setup
	$(VENV)/bin/python bench/fuzz.py --seconds $(SECONDS) --json

# The pages of results in docs/ (rooms, soccer, Table 1 and its systems) with their pictures, made anew: about two hours.
results: setup
	$(VENV)/bin/asap reproduce rooms --out reproduced
	$(VENV)/bin/asap reproduce soccer --out reproduced
	$(VENV)/bin/asap reproduce table1 --out reproduced
	$(VENV)/bin/asap reproduce rivals --out reproduced
	$(VENV)/bin/asap reproduce four-rooms --out reproduced
	cp reproduced/rooms.md docs/results.md
	cp reproduced/soccer.md docs/results-soccer.md
	cp reproduced/table1.md docs/table1.md
	cp reproduced/rivals.md docs/results-rivals.md
	cp reproduced/four-rooms.md docs/results-four-rooms.md
	cp reproduced/pictures/* docs/pictures/

bench: $(PACKAGE)
	$(VENV)/bin/python bench/rooms.py --json

clean:
	rm -rf $(VENV) build src/*.egg-info
