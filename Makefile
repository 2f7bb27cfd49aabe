# `make demo` shows the product at work, `make test` checks it; both set up what they need.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade

# Hundreds of processes start during a run. Without cached byte code each of them compiles the project again.
export PYTHONDONTWRITEBYTECODE :=

# Test processes share the servers of a run (tests/shared_servers.py). A file stays in one of them, for its fixtures.
# One more process than the usual two cores, because many tests wait (tests/file_order.py). Threads of a numeric library
# would only take turns with the other processes.
PROCESSES := 3
PARALLEL = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --ignore tests/cluster

# The long tests. `.ci/run` runs `make test` and one of these groups, in turns (tests/turns.py).
GROUPS := slow chaos cluster-test

.PHONY: help setup demo test tests-of-every-change test-all slow chaos cluster-test turn next-turn servers cluster-programs linter-programs lint quick fuzz mutants benchmark plant-model dist sbom release prove-gpu chart-docs lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/.ready  ## make .venv with the pinned dependencies

.venv/.ready: requirements/bootstrap.txt requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v in ((3, 11), (3, 12)) else \
		f"expected Python 3.11 or 3.12, found {v[0]}.{v[1]} as $(PYTHON): name another with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

demo: setup  ## Kafka, Triton and the worker on this machine, filling holes in two minutes
	$(BIN)/python -m deploy.demo $(DEMO)

# mypy uses one core, so it runs beside the tests; make waits for both, and fails if either does.
test: servers  ## static checks, unit and property tests, real Kafka, Triton and helm: what a change is checked with
	$(MAKE) --no-print-directory --jobs=2 lint tests-of-every-change

tests-of-every-change: setup
	$(PARALLEL) -m '(not chaos or short) and not cluster and not slow'

test-all: test $(GROUPS)  ## everything: make test, make slow, make chaos and make cluster-test

# The slow tests compute, so that a third process would only take turns with the others.
slow: PROCESSES := 2
slow: servers linter-programs  ## the tests that take long; quicker tests cover the same code
	$(PARALLEL) -m 'slow and not chaos'

chaos: export GLAIM_CHAOS_DELIVERY = $(or $(DELIVERY),exactly_once)
chaos: PROCESSES := 2
chaos: servers  ## every fault in real parts, and a table of what it cost; CHAOS= names some of tests/chaos, DELIVERY=at_least_once
	$(PARALLEL) -m chaos $(or $(CHAOS),tests/chaos tests/monitoring)
	$(BIN)/python -m tests.chaos.table

cluster-test: cluster-programs  ## the chart installed in a real Kubernetes control plane with fake nodes; CLUSTER= names some tests
	$(BIN)/python -m pytest -m cluster $(or $(CLUSTER),tests/cluster)

turn:  ## the group that is due, by .ci/turn of the last commit
	@$(PYTHON) -m tests.turns $(GROUPS)

next-turn:  ## advance .ci/turn, for the last commit of a landing
	@$(PYTHON) -m tests.turns --next $(GROUPS)

linter-programs: setup
	$(BIN)/python -m deploy.linters --fetch-only || test $$? -eq 3

cluster-programs: setup
	$(BIN)/python -m deploy.helm --fetch-only || test $$? -eq 3
	$(BIN)/python -m deploy.cluster --fetch-only || test $$? -eq 3  # built from source once: eight minutes of two idle cores

servers: setup  # fetched here, so that no test times out on a slow network
	$(BIN)/python -m deploy.kafka --fetch-only
	$(BIN)/python -m deploy.triton --fetch-only || test $$? -eq 3  # 3: this machine cannot, and tests skip
	$(BIN)/python -m deploy.helm --fetch-only || test $$? -eq 3
	$(BIN)/python -m deploy.compose_spec --fetch-only || test $$? -eq 3
	$(BIN)/python -m deploy.chart_docs --fetch-only || test $$? -eq 3
	$(BIN)/python -m deploy.prometheus --fetch-only || test $$? -eq 3
	$(BIN)/python -m deploy.crane --fetch-only || test $$? -eq 3

quick: lint  ## make test without the tests that start servers
	$(PARALLEL) -m 'not chaos and not cluster and not slow' --ignore tests/integration

fuzz: setup  ## far more of the readers' fuzz tests than `make test` has time for: GLAIM_FUZZ=20000 examples each
	GLAIM_FUZZ=$${GLAIM_FUZZ:-20000} $(BIN)/python -m pytest --timeout 0 tests/decode/test_fuzz_decode.py tests/feed/test_fuzz_files.py

mutants: setup  ## do the unit tests notice small changes of the code? SEED= chooses them, MINUTES= limits the run
	$(BIN)/python -m tests.mutants --seed $(or $(SEED),0) --minutes $(or $(MINUTES),60)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: setup  ## readings a second through one worker on one core, beside plain Faust
	$(BIN)/python -m benchmarks.stream

plant-model: setup  ## train the demo's model anew, half an hour on one core
	$(BIN)/python -m deploy.demo.plant_model --results benchmarks/results

dist: setup  ## wheel and sdist into dist/, built with what is pinned and checked for what belongs in them
	rm -rf dist/glaim_stream-*
	$(UV) build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist .
	$(BIN)/check-wheel-contents --package-omit __pycache__,*.pyc dist/glaim_stream-*.whl

chart-docs: setup  ## write the chart's README and the descriptions of its schema from values.yaml
	$(BIN)/python -m deploy.chart_docs

sbom: setup  ## what images and chart are made of, as CycloneDX, and the notices of third parties, into dist/
	$(BIN)/python -m deploy.sbom --out dist
	$(BIN)/python -m deploy.notices --out dist

release: dist sbom  ## dry run of a release: wheel, sdist, chart and SBOMs into dist/, and what would be tagged and published
	$(BIN)/python -m deploy.release --rehearse

prove-gpu: setup  ## on a machine with a GPU and Docker: prove what could not be proved without one, on one page
	$(BIN)/python -m deploy.prove_gpu

lock: setup  ## compile requirements/*.txt anew from pyproject.toml
	$(COMPILE) --extra audit pyproject.toml -o requirements/core.txt
	$(COMPILE) $(addprefix --extra ,audit local training tune curves brokers tables simple dev) pyproject.toml -o requirements/dev.txt
	$(COMPILE) requirements/serving.in -o requirements/serving.txt
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) --extra training --constraint requirements/dev.txt pyproject.toml -o requirements/training.txt

clean:  ## remove what was built; downloads in .cache stay
	rm -rf .venv build dist demo-output
