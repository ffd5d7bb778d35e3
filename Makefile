# gangbridge. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB := $(PYTHON) -m e2e.lab

.DEFAULT_GOAL := help
.PHONY: help venv fmt check unit model e2e test demo bench bench-e2e bench-restart chaos lab-build lab-up lab-down lab-status lab-env operator protos

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

$(VENV)/.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the Python packages"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

venv: $(VENV)/.stamp ## Python environment of the operator and the tests

fmt: venv ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: venv ## ruff, mypy --strict, import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: venv ## pure tests and tests against fakes, under two hash seeds where order could matter
	PYTHONHASHSEED=1 $(BIN)/pytest tests
	PYTHONHASHSEED=2 $(BIN)/pytest tests/lifecycle tests/placement

model: venv ## 100 000 steps of random lives over the fakes; then each safeguard is removed and has to be missed
	PYTHONHASHSEED=0 $(BIN)/python -m tests.machine.run
	PYTHONHASHSEED=0 $(BIN)/python -m tests.machine.mutate

e2e: venv lab-up ## contract and end-to-end tests on the real servers
	. <($(LAB) env) && $(BIN)/pytest e2e --timeout 400 --durations 10

test: lab-build check unit e2e ## everything that a fresh machine can run

demo: venv lab-up ## the guided run: sbatch and a GangJob share a node
	. <($(LAB) env) && $(BIN)/python -m e2e.demo

bench: venv lab-build ## placement beside real Slurm: speed, quality, exact optima
	$(BIN)/python -m bench

bench-e2e: venv lab-up ## times on the real servers, as a table
	. <($(LAB) env) && $(BIN)/python -m e2e.bench

bench-restart: venv lab-up ## a crash with 2 000 nodes and 1 000 gangs: time to the first new placement
	. <($(LAB) env) && $(BIN)/python -m e2e.bench.restart

chaos: venv lab-up ## 500 random faults during a mixed load, then the verdict; CHAOS="--faults N --seed N"
	. <($(LAB) env) && $(BIN)/python -m e2e.chaos $(CHAOS)

operator: venv lab-up ## the operator against the lab, in the foreground
	. <($(LAB) env) && $(BIN)/python -m e2e.operator

lab-build: ## build what the lab needs into the cache
	$(LAB) build

lab-up: lab-build venv ## bring the lab up; seconds when it is
	$(LAB) up

lab-down: ## end the lab; the cache stays
	$(LAB) down

lab-status: ## what runs, and since when
	@$(LAB) status

lab-env: ## shell code for kubectl, squeue, sbatch as alice: . <(make -s lab-env)
	@$(LAB) env

protos: venv ## generate the kubelet plugin's gRPC code from the published protos
	operators/driver/proto/regenerate.sh $(BIN)/python
