# `make test` and `make demo` set up what they need: a virtual environment from uv.lock, and the local control plane,
# built once (about 7 minutes) into ~/.cache/firsttoken. They need make, Python >= 3.11 with venv, and the registries
# of Python and Go modules. With KUBECONFIG and PROMETHEUS_URL set, the demo uses that cluster and builds nothing.

PYTHON ?= python3
UV_VERSION := 0.13.9
VENV := .venv
BIN := $(VENV)/bin
# Three workers on two cores: live tests, half of the time, mostly wait.
PYTEST_ARGS ?= --numprocesses 3 --dist loadscope --no-loadscope-reorder
DEMO_ARGS ?=
PROFILE_ARGS ?=
# Bytecode is kept, whatever the environment says: the tests start hundreds of processes, each of which would compile all
# that it imports, and pytest would rewrite every assertion again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help test test-faults test-keda test-pool check pure-tests lint demo cluster profile control-plane image node node-parts engine-parts engines crds release clean

help:  ## Show these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

test: lint control-plane node-parts engine-parts  ## Lint, then every test; PYTEST_ARGS="..." passes options on
	$(BIN)/pytest $(PYTEST_ARGS)

test-faults: control-plane  ## Every fault of the network that tests/faults can make; `make test` plays a part of them
	$(BIN)/pytest tests/faults --every-fault --numprocesses 2 --dist worksteal

test-keda: control-plane  ## KEDA follows the advice: builds the real one first (three minutes), then takes five
	$(BIN)/pytest tests/keda --real-keda --numprocesses 0

test-pool: control-plane  ## Three priorities on a pool that is too small, also with a kill while they share: 15 minutes
	$(BIN)/pytest tests/pool --crowded-pool --numprocesses 0

# What needs no cluster and no program but ours: the round between two edits. Judges of accuracy and of seeded defects
# take minutes each and are left to `make test`, which decides; so are the tests that start Helm or a server's program.
check: $(VENV)/.synced  ## Lint and, beside it, the pure tests with few examples each: two minutes
	+@$(MAKE) --no-print-directory --jobs=2 lint pure-tests

pure-tests: $(VENV)/.synced
	HYPOTHESIS_SCALE=0.1 $(BIN)/pytest $(PYTEST_ARGS) --dist worksteal -m "not cluster and not slow" \
	  --ignore=tests/benchmarks --ignore=tests/mutants \
	  --ignore=tests/helm --ignore=tests/tools/cluster

lint: $(VENV)/.synced  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/mypy tools tests/conftest.py tests/skip_gate.py demo benchmarks
	$(BIN)/lint-imports

demo: $(VENV)/.synced $(if $(and $(KUBECONFIG),$(PROMETHEUS_URL)),,control-plane) $(if $(NODE),node-parts) $(if $(filter triton,$(RUNTIME)),engine-parts)  ## A burst, live, in six minutes; NODE=1: on a real node (needs root); RUNTIME=triton or vllm: with a real one
	$(BIN)/python -m demo$(if $(NODE),.node) $(if $(RUNTIME),--runtime $(RUNTIME)) $(DEMO_ARGS)

cluster: control-plane  ## A cluster of one's own to try things on, with emulated GPUs, until Ctrl-C
	@$(BIN)/python -m tools.cluster.hold

profile: control-plane  ## CPU time of the operator with 1,000 resources, by part (py-spy); PROFILE_ARGS="--n 100" for less
	$(BIN)/python benchmarks/scale.py --only ours --n 1000 --quiet-minutes 3 --profile $(PROFILE_ARGS)

control-plane: $(VENV)/.synced  ## Build the control plane; fetch Helm and kubectl
	@$(BIN)/python -m tools.cluster

image: $(VENV)/.synced  ## Build the image of the Dockerfile, without Docker and without a registry (needs root)
	@$(BIN)/python -m tools.image

node: control-plane node-parts  ## What a real node with real pods shows; a part of `make test` (needs root)
	$(BIN)/pytest tests/node --capture=no

node-parts: $(VENV)/.synced
	@$(BIN)/python -m tools.node

engines: control-plane engine-parts  ## A real vLLM beside the real Triton: fetches 6 GB first
	$(BIN)/pytest tests/engines --every-engine --numprocesses 0

engine-parts: $(VENV)/.synced
	@$(BIN)/python -m tools.engines

crds: $(VENV)/.synced  ## Write crds/ from the pydantic models
	for folder in crds helm/firsttoken/files/crds; do $(BIN)/python -m firsttoken_operator.api.crd $$folder/; done

release: $(VENV)/.synced  ## VERSION=x.y.z: write it everywhere, head the changelog, commit and tag
	@$(BIN)/python -m tools.release "$(VERSION)"

clean:  ## Remove the virtual environment and tool caches; the control plane's cache stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.synced: pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is missing or older than 3.11; install Python >= 3.11 or set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
	  || { echo "error: $(PYTHON) has no venv; install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || { echo "installing uv $(UV_VERSION) into $(VENV)"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	$(BIN)/uv sync --frozen --all-extras
	@touch $@
