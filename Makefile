# The two commands of the README are `make plan` and `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
SPEC   ?= specs/qwen2.5-7b-rtx4090.yaml
TORCH  ?= torch==2.13.0
DEVICE ?= cpu
# One process a core, each with its own PostgreSQL; `make test SHARED=` runs all in one.
SHARED ?= --numprocesses logical --maxprocesses 8 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help plan test thorough lint docs format bench accuracy serving-accuracy static-accuracy
.PHONY: public-runs inductor serve service-fuzz load lab sweep-ray wheel clean fusion-gains pictures site

help:            ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

plan: $(VENV)/core      ## Set up, plan SPEC and store the plan
	$(BIN)/planner plan $(SPEC)

test: $(VENV)/test      ## Set up, run the whole test suite
	$(BIN)/python -m pytest $(SHARED)

thorough: $(VENV)/test  ## The suite with many more examples in tests of properties
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest $(SHARED)

lint: $(VENV)/lint      ## ruff and mypy strict
	$(BIN)/ruff check planner tests benchmarks docs
	$(BIN)/ruff format --check planner tests benchmarks docs
	$(BIN)/mypy

docs: $(VENV)/test      ## Refresh the generated parts of the documentation
	$(BIN)/python docs/generate.py

pictures: $(VENV)/test  ## Draw the pictures of docs/charts.md
	$(BIN)/python docs/pictures.py

format: $(VENV)/lint    ## Apply ruff's formatting and safe fixes
	$(BIN)/ruff check --fix planner tests benchmarks docs
	$(BIN)/ruff format planner tests benchmarks docs

bench: $(VENV)/test     ## Timed comparisons, as ratios within one run
	$(BIN)/python -m pytest benchmarks --benchmark-only --benchmark-disable-gc -o addopts=""

accuracy: $(VENV)/calibrate  ## Errors of the kernel models, and residual plots in accuracy/
	mkdir -p accuracy
	$(BIN)/planner validate --by family --plots accuracy > accuracy/families.txt
	$(BIN)/planner validate --by family,band > accuracy/bands.txt
	$(BIN)/planner validate --by family,gpu > accuracy/gpus.txt
	$(BIN)/planner validate > accuracy/cells.txt
	$(BIN)/planner validate --transfer > accuracy/gpus-left-out.txt
	$(BIN)/planner validate --roofline > accuracy/roofline.txt
	$(BIN)/planner validate --family gemm --shapes > accuracy/shapes-left-out.txt
	$(BIN)/planner validate --family attention_decode --engine vllm --shapes >> accuracy/shapes-left-out.txt
	$(BIN)/planner validate --whole-models --json > docs/measured/whole-models.json
	@cat accuracy/families.txt accuracy/bands.txt accuracy/gpus.txt

serving-accuracy: $(VENV)/calibrate  ## Errors on public serving measurements, some minutes
	$(BIN)/planner validate --source aiconfigurator --rows all --json --summary > docs/measured/serving.json.part
	mv docs/measured/serving.json.part docs/measured/serving.json
	$(BIN)/python docs/generate.py

serve: $(VENV)/service  ## Start the service with the example database in serve/
	mkdir -p serve
	test -e serve/plans.db || PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/examples/serve/fill.sh serve/plans.db || { rm -f serve/plans.db*; exit 1; }
	$(BIN)/planner serve --db serve/plans.db

service-fuzz: $(VENV)/fuzz  ## schemathesis against the service, some minutes
	$(BIN)/python tests/service/fuzz.py --max-examples 100 --max-time 300

load: $(VENV)/test      ## 64 clients against the service on both databases, some minutes
	$(BIN)/python benchmarks/service_load.py --out docs/measured/load.json

fusion-gains: $(VENV)/calibrate  ## Gains, ratios and capture sizes in the pages on fusion, attention and graphs
	$(BIN)/python docs/generate.py --apart

static-accuracy: $(VENV)/test  ## Errors on public static batches, before and after ten runs, minutes
	$(BIN)/python docs/static_runs.py
	$(BIN)/python docs/generate.py

public-runs: $(VENV)/core  ## Public runs of servers beside their plans, and the spread of intervals
	$(BIN)/planner calibrate spread docs/measured/public-runs.csv docs/measured/served-runs.csv docs/measured/static-runs.csv --out catalog/spreads --json > docs/measured/spread.json.part
	mv docs/measured/spread.json.part docs/measured/spread.json
	$(BIN)/planner validate docs/measured/served-runs.csv --by backend.name,figure --json > docs/measured/served-runs.json.part
	mv docs/measured/served-runs.json.part docs/measured/served-runs.json
	$(BIN)/python docs/generate.py

inductor: $(VENV)/lab   ## Kernels of plans beside TorchInductor's, a quarter of an hour
	$(BIN)/python -m pytest tests/lab/test_inductor_torch.py -m torch
	$(BIN)/planner validate --source inductor --json > docs/measured/inductor.json.part
	mv docs/measured/inductor.json.part docs/measured/inductor.json
	$(BIN)/python docs/generate.py

lab: $(VENV)/lab        ## Test the lab with torch, then measure, plan and judge this machine
	$(BIN)/python -m pytest tests/lab tests/importers -m torch
	$(BIN)/planner lab run --device $(DEVICE) --fresh --out lab --db lab/lab.db

sweep-ray: $(VENV)/ray  ## Test sweeps on a Ray cluster of this machine
	$(BIN)/python -m pytest tests/cli -m ray

site: $(VENV)/docs      ## Build the documentation as a site into build/site, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: $(VENV)/core     ## Build the wheel into dist/
	$(PIP) install build
	$(BIN)/python -m build --wheel

clean:           ## Remove the environment and build leftovers
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .benchmarks

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "planner needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable .
	@touch $@

$(VENV)/test: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[test]'
	@touch $@ $(VENV)/core

$(VENV)/calibrate: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[test,calibrate]'
	@touch $@ $(VENV)/core $(VENV)/test

$(VENV)/lab: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[test,lab,charts]' '$(TORCH)'
	@touch $@ $(VENV)/core $(VENV)/test

$(VENV)/ray: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[test,ray]'
	@touch $@ $(VENV)/core $(VENV)/test

$(VENV)/docs: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[docs]'
	@touch $@ $(VENV)/core

$(VENV)/service: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[service]'
	@touch $@ $(VENV)/core

$(VENV)/fuzz: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[test,fuzz]'
	@touch $@ $(VENV)/core $(VENV)/test

$(VENV)/lint: pyproject.toml | $(VENV)/bin/python
	$(PIP) install --editable '.[test,lint]'
	@touch $@ $(VENV)/core $(VENV)/test
