# Everything a newcomer needs is Python 3.11 or newer and make: `make demo`, `make test`.
# The first call installs into .venv; later calls start at once until pyproject.toml changes.

PYTHON ?= python3
# More arguments for the tool behind a target: make test ARGS="-k producer", make bench ARGS=--help.
ARGS ?=
# Test processes: a number, auto (one more than there are cores), or 0 for a single process that pdb works in.
WORKERS ?= auto
# A process that a hanging test has ended is replaced once: the next is given the same test.
IN_PROCESSES = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --max-worker-restart 1

VENV := .venv
VENV_PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PYTHON_IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# Tests start Python hundreds of times. Where nothing compiled may be kept, as in many images, each compiles all anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test quick sim chaos kills scenarios differential demo check bench docs browser screens messages proto fmt clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Install everything into .venv (once, a few minutes)
	@:

# The stamp is written last: an interrupted or failed install is taken up again by the next call.
$(STAMP): pyproject.toml
	@$(PYTHON) -c '$(PYTHON_IS_NEW_ENOUGH)' || { \
	    echo "Barnabas needs Python 3.11 or newer, and '$(PYTHON)' is not that: name one, as in" >&2; \
	    echo "    make setup PYTHON=python3.12" >&2; \
	    exit 1; }
	@$(VENV_PYTHON) -c 'import pip; $(PYTHON_IS_NEW_ENOUGH)' >/dev/null 2>&1 || { \
	    echo "creating $(VENV)"; \
	    $(PYTHON) -m venv --clear $(VENV); }
	@echo "installing Barnabas and all it uses into $(VENV) (once, a few minutes; PySpark is 450 MB of it)"
	@$(VENV_PYTHON) -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(VENV_PYTHON) -m pip install -q --disable-pip-version-check --editable '.[all]' --group dev
	@touch $(STAMP)
	@echo "installed; '. $(VENV)/bin/activate' puts the barnabas command on your PATH"

test: setup ## Run all tests
	@$(VENV_PYTHON) -m pytest $(IN_PROCESSES) $(ARGS)

# What needs neither Spark, nor other processes, nor many seeds.
QUICK := tests/unit tests/scenarios tests/conformance/records

quick: setup ## Run the tests without Spark, real processes and simulations: a few minutes
	@$(VENV_PYTHON) -m pytest $(IN_PROCESSES) $(QUICK) $(ARGS)

# How many seeds each simulation runs.
SEEDS ?= 200

# What has more examples to try than a run of all tests does, or more seeds.
SIMULATED := tests/simulation tests/unit/core tests/unit/storage tests/unit/testing tests/unit/wire \
    tests/unit/edge/kafka/producing tests/conformance/records

# ARGS=quorum: those of the quorum, from Raft alone to clusters of whole nodes.
SIMULATIONS_OF_THE_QUORUM := tests/unit/core/raft/test_simulation.py tests/simulation/test_quorum.py \
    tests/simulation/test_wire_quorum.py tests/simulation/test_cluster_quorum.py

sim: setup ## Run the simulations with many seeds, and the properties with all examples (SEEDS=N, ARGS=quorum|replicas)
	@TEST_SEEDS=$(SEEDS) RAFT_SEEDS=$(SEEDS) TEST_EXAMPLES=all $(VENV_PYTHON) -m pytest -n $(WORKERS) \
	    $(patsubst replicas,tests/simulation/test_cluster_replicas.py,$(patsubst quorum,$(SIMULATIONS_OF_THE_QUORUM),$(or $(ARGS),$(SIMULATED))))

# How long real nodes are killed, paused and cut off; without it: the crashes of Spark. ARGS="--seed 42" repeats a run.
MINUTES ?=

chaos: setup ## Real nodes killed, paused and cut off under load (MINUTES=N), or Spark's sinks at every step (without; long)
ifeq ($(MINUTES),)
	@TEST_CRASHES=all TEST_CLUSTERS=all $(VENV_PYTHON) -m pytest -ra tests/spark/crashes tests/spark/cluster $(ARGS)
else
	@$(VENV_PYTHON) -m tests.system.chaos --minutes $(MINUTES) $(ARGS)
endif

# How often the active controller of a cluster is killed or paused.
KILLS ?= 50

kills: setup ## Kill and pause the controller of a cluster again and again while topics change (KILLS=N, long)
	@CLUSTER_KILLS=$(KILLS) $(VENV_PYTHON) -m pytest -ra -s tests/system/test_cluster_kills.py $(ARGS)

scenarios: setup ## Play the transcripts of tests/scenarios and write down what is printed now
	@REWRITE_SCENARIOS=1 $(VENV_PYTHON) -m pytest -q tests/scenarios $(ARGS)

differential: setup ## Compare reads with those of Spark's own Kafka connector (its JARs come from Maven Central)
	@TEST_DIFFERENTIAL=1 $(VENV_PYTHON) -m pytest -ra tests/spark/differential $(ARGS)

demo: setup ## See it work: a broker and a leader killed in the middle, a pipeline on Spark; every record accounted for
	@$(VENV_PYTHON) -m barnabas.cli.main demo $(ARGS)

check: setup ## Formatting, lint, types and import contracts, in seconds
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

bench: setup ## Measure against the limits and the peers
	@$(VENV_PYTHON) -m bench $(ARGS)

browser: setup ## Use the console in a real browser (needs chromium and chromedriver)
	@TEST_BROWSER=1 $(VENV_PYTHON) -m pytest -ra tests/browser $(ARGS)

screens: setup ## Take the pictures of the console in docs/images anew (needs chromium and chromedriver)
	@$(VENV_PYTHON) -m tests.browser.screens docs/images

docs: setup ## Write the reference pages of the settings and the metrics anew
	@$(VENV_PYTHON) -m barnabas.services.settings > docs/configuration.md
	@$(VENV_PYTHON) -m barnabas.testing.metrics_page > docs/metrics.md

messages: setup ## Write the types of requests and answers, and the list of APIs, anew
	@$(VENV_PYTHON) -m barnabas.edge.kafka.messages

proto: setup ## Write the messages and stubs of gRPC anew
	@$(VENV_PYTHON) -m grpc_tools.protoc -Iproto --python_out=src --pyi_out=src --grpc_python_out=src proto/barnabas/v1/bus.proto

fmt: setup ## Format, and fix what lint can fix
	@$(VENV_PYTHON) -m ruff check --fix-only --quiet .
	@$(VENV_PYTHON) -m ruff format .

clean: ## Remove caches and build output, keep .venv
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests bench -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## Remove .venv too
	@rm -rf $(VENV)
