# Every target works in .venv and says what it does. Start with `make demo` or `make test`.
PYTHON ?= python3.11
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Images of Python often set it, and then each of the hundreds of processes that tests start compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo page check test slow style types script fast all long fuzz examples slurm-compare lock audit site bench tables clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: .venv/.ready  ## make .venv with the pinned requirements (about a minute the first time)

.venv/.ready: requirements.txt requirements-dev.txt pyproject.toml tools/setup
	@tools/setup $(PYTHON)

demo: setup      ## six applications at once, first pod by pod, then as gangs (under two minutes)
	@$(BIN)/phalanx demo --timeline out/demo.svg

page: setup      ## the libraries of the page of `phalanx dashboard` (npm packages; a few seconds)
	@$(BIN)/python -m phalanx.dashboard.libraries

check: setup     ## style, types, house rules and the fast tests (aim: a minute; each step says how long it took)
	@$(MAKE) --no-print-directory --jobs 2 timed-style timed-types timed-script timed-fast

test: setup      ## everything `make check` does, and the slow tests (aim: 8 minutes on two idle cores)
	-@$(MAKE) --no-print-directory page
	@$(MAKE) --no-print-directory --jobs 2 timed-style timed-types timed-script timed-all

slow: setup      ## the long tests: more seeds of each random search, and whole systems that take minutes (not in `make test`)
	@$(MAKE) --no-print-directory timed-long

# A step of these three, and how long it took.
timed-%:
	@start=$$(date +%s); $(MAKE) --no-print-directory $*; code=$$?; \
	echo "$*: $$(($$(date +%s) - start)) s"; exit $$code

style: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

# The page's modules, where there is Node; eslint and tsc too, where `make page` has installed them. Types are checked on a
# copy in which the libraries are declarations, because their own files have no types.
script:
	@if ! command -v node > /dev/null; then echo "script: there is no Node; the page's modules are not checked"; exit 0; fi; \
	mkdir -p out; node --test tests/dashboard/page.test.js > out/page-test.log 2>&1 || { cat out/page-test.log; exit 1; }; \
	if [ -x node_modules/.bin/eslint ]; then node_modules/.bin/eslint src/phalanx/dashboard tests/dashboard || exit 1; fi; \
	if [ -x node_modules/.bin/tsc ]; then \
	    rm -rf out/types; mkdir -p out/types; cp -r src/phalanx/dashboard/static/js tests/dashboard/types/vendor out/types; \
	    node_modules/.bin/tsc --project .; \
	fi

fast: setup
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not long"

all: setup
	$(BIN)/pytest -n 4 --dist worksteal -r s -m "not long"

long: setup
	$(BIN)/pytest -n 3 --dist worksteal -r s -m long

fuzz: setup      ## 100,000 requests of a hostile user, 10,000 seeds of the simulated cluster, 5,000 of the whole way, 10,000 trees of queues, 100,000 judged worlds, other examples
	PHALANX_REQUESTS=100000 PHALANX_SEED=2 $(BIN)/pytest -n 2 --dist worksteal tests/embedded/fuzz
	PHALANX_SEEDS=10000 $(BIN)/pytest -n 2 --dist worksteal tests/simulation tests/core/test_decisions_follow_from_the_state.py
	PHALANX_SEEDS=5000 $(BIN)/pytest -n 2 --dist worksteal tests/whole_way
	PHALANX_TREES=10000 $(BIN)/pytest -n 2 --dist worksteal tests/core/preemption/test_no_flapping.py
	PHALANX_WORLDS=100000 $(BIN)/pytest -n 2 --dist worksteal tests/reference
	$(BIN)/pytest -n 2 --dist worksteal --hypothesis-profile fuzz --timeout 3600 tests -m hypothesis

ALL_EXAMPLES := mpi,ray,ddp,spark,slurm/submitit,slurm/simple-slurm,slurm/slurmpy,slurm/psij,slurm/mpirun,slurm/parsl,slurm/dask-jobqueue
ALL_EXAMPLES := $(ALL_EXAMPLES),slurm/reframe,slurm/clusterfutures,slurm/snakemake,slurm/torchrun,slurm/lightning,kubernetes/torchx
ALL_EXAMPLES := $(ALL_EXAMPLES),kubernetes/kubeflow,kubernetes/kubeflow-training,kubernetes/codeflare-sdk
ALL_EXAMPLES := $(ALL_EXAMPLES),kubernetes/airflow,kubernetes/dask,kubernetes/metaflow,kubernetes/prefect

examples: setup  ## every example, none left out, Spark in full, and clients of many packages (installs 4 GB under out/)
	PHALANX_EXAMPLES=$(ALL_EXAMPLES) $(BIN)/pytest tests/examples -v
	$(BIN)/python examples/spark/run

slurm-compare: setup  ## generated command lines on Debian's Slurm 22.05 and here, and where they differ (needs root; STEPS=300 SEED=1)
	@$(BIN)/python -m tests.slurm.beside --steps $(or $(STEPS),300) --seed $(or $(SEED),1) --shrink

lock: setup      ## pin what requirements*.in need, each file by its hash (minutes; PACKAGE=name brings one up to date)
	@tools/lock

audit: setup     ## known vulnerabilities of what is pinned, by pip-audit (its database is on the network)
	@$(BIN)/python tools/audit

site: setup      ## the documentation as a site with search, in out/site; every link is checked
	@$(BIN)/python tools/site --strict

bench: setup     ## the benchmarks, one JSON object a line
	@for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

tables: setup    ## tables that others published, with ours beside them (hours on two cores; TABLE=easy: one of them)
	@$(BIN)/python benchmarks/tables $(if $(TABLE),--table $(TABLE)) $(if $(QUICK),--quick)

clean:           ## remove .venv and every cache
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build out src/*.egg-info
