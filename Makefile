# Tessera's doors. Needs GNU make and Python 3.11 or newer; everything else is installed into .venv.
#   make run        the whole job once, on real work
#   make help       every target with one line each

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
READY  := $(VENV)/.installed
# The benchmark's peers are not dependencies: they live in an environment of their own.
BENCH  := .venv-bench
BENCH_READY := $(BENCH)/.installed
JOBS   ?= 2
SECONDS ?= 600
RATE    ?= 10000
OLD     ?= 5000000

export DAGSTER_DISABLE_TELEMETRY := yes
export MARIMO_SKIP_UPDATE_CHECK := 1
export UV_NO_PROGRESS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Trust what the machine trusts, where it keeps a bundle: a company's proxy has its certificate there.
export UV_SYSTEM_CERTS ?= $(if $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem),1,0)

.DEFAULT_GOAL := help
.PHONY: help install run test faults soak check format ui notebook notebook-html bench lock clean
.DELETE_ON_ERROR:

help: ## Say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r t d; do printf '%-20s %s\n' "$$t" "$$d"; done

install: $(READY) ## Make the environment in .venv from the lock file, hashes checked
	@echo "ready: $(VENV)"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Tessera needs Python 3.11 or newer; '$(PYTHON)' says: `$(PYTHON) --version 2>&1 | head -n 1`. Try: make $(or $(firstword $(MAKECMDGOALS)),install) PYTHON=python3.12" >&2; exit 1; }
	@echo "1/4 making the environment $(VENV) with `$(PYTHON) --version`"
	@$(PYTHON) -m venv $(VENV) || { echo "this Python cannot make environments; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "2/4 installing uv, the installer, at the version and hash of requirements.lock"
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.txt
	@$(PY) -m pip install --quiet --require-hashes --only-binary :all: -r $(VENV)/uv.txt
	@echo "3/4 installing the packages of requirements.lock, hashes checked (a minute or two the first time)"
	@$(PY) -m uv pip sync --quiet --python $(PY) --require-hashes requirements.lock
	@echo "4/4 installing this checkout, so that tessera, workspace and learner are commands in $(BIN)"
	@$(PY) -m uv pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .
	@touch $(READY)

run: $(READY) ## The whole job on real work: draw, learn, judge, follow; what was predicted and what happened
	@$(PY) -m examples.main_job

test: $(READY) ## All tests
	@$(PY) -m pytest -n $(JOBS) --dist loadgroup

faults: $(READY) ## Kills and contention at length, on SQLite and PostgreSQL (SECONDS=600 for each of four)
	@$(PY) -m tests.faults --seconds $(SECONDS)

soak: $(READY) ## Real load for SECONDS=600 at RATE=10000 a minute, on an empty store and beside OLD=5000000 old runs
	@$(PY) -m bench.soak --seconds $(SECONDS) --rate $(RATE) --old $(OLD)

check: $(READY) ## Format, lint, types and the direction of imports
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(BIN)/lint-imports

format: $(READY) ## Rewrite the files as the formatter has them
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

ui: $(READY) ## Dagster's UI on the workspace, with the history of make run; Ctrl-C ends it
	@$(PY) -m pipelines.ui

notebook: $(READY) ## The analysts' notebooks in a browser; Ctrl-C ends it
	@$(PY) -m pipelines.notebooks edit

notebook-html: $(READY) ## The notebooks as HTML files in .tessera/notebooks, all of them or none
	@$(PY) -m pipelines.notebooks html

bench: $(BENCH_READY) ## The benchmark table, peers side by side (QUICK=1: a tenth of the work)
	@$(BENCH)/bin/python -m bench $(if $(QUICK),--quick)

$(BENCH_READY): $(READY) bench/requirements.lock
	@echo "making the environment $(BENCH): the project's packages and the peers it is measured against"
	@$(PYTHON) -m venv --without-pip $(BENCH)
	@$(PY) -m uv pip sync --quiet --python $(BENCH)/bin/python --require-hashes bench/requirements.lock
	@touch $(BENCH_READY)

lock: $(READY) ## Resolve pyproject.toml anew into requirements.lock and bench/requirements.lock
	@$(PY) -m uv pip compile --quiet pyproject.toml --extra server --extra workspace --extra cluster --extra dev \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url -o requirements.lock
	@$(PY) -m uv pip compile --quiet pyproject.toml --extra server --extra workspace --extra bench --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url -o bench/requirements.lock

clean: ## Remove the environments and caches; .tessera, where your data is, stays
	@rm -rf $(VENV) $(BENCH) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
