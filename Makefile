# `make papers` and `make test` do all the set-up themselves; they need git, make and Python 3.11
# or newer with venv.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
# Studies of a user, which `make lint` does not judge by the style of this project.
OURS := backend_speedup conv_profiling conv_scaling gpu_survey inference_memory training_roofline \
  tuning_tips
THEIRS := $(filter-out $(OURS) __init__ __pycache__,$(basename $(notdir $(wildcard report/studies/*))))
SKIPPED := $(foreach study,$(THEIRS),--extend-exclude experiments/$(study).py,report/studies/$(study),tests/test_$(study).py)
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests start hundreds of interpreters, in the project and in copies of it, each of which would
# compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: papers test lint format bench size clean

papers: $(VENV)/papers.stamp  ## Build every paper as PDF and HTML into out/
	$(RUN) build.py --pdf --html

test: $(VENV)/test.stamp lint  ## Check the code and run all tests
	$(RUN) -m compileall -q build.py report figures experiments
	$(RUN) -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

lint: $(VENV)/test.stamp  ## Format, lint, types, the contract of imports, and vague names
	$(RUN) -m ruff format --check . $(SKIPPED)
	$(RUN) -m ruff check . $(SKIPPED)
	$(RUN) -m mypy $(foreach study,$(THEIRS),--exclude '/$(study)(/|[.]py)')
	$(VENV)/bin/lint-imports
	$(RUN) -m benchmarks.language $(THEIRS)

format: $(VENV)/test.stamp  ## Bring the code into shape
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

bench: $(VENV)/test.stamp  ## Measure builds and growth and write benchmarks/README.md (half an hour)
	$(RUN) -m benchmarks

size:  ## Count lines of code by room beside their budgets
	$(PYTHON) -m benchmarks.size

clean:  ## Remove the environment and everything that was built
	rm -rf $(VENV) out

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "ridgepoint needs Python 3.11 or newer: run 'make PYTHON=python3.12 papers' with yours." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/papers.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what the papers need into $(VENV) (about a minute, once)"
	$(INSTALL) --editable .
	@touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what the tests need into $(VENV), PyTorch among it (a few minutes, once)"
	$(INSTALL) --editable '.[experiments,slurm,test]'
	@touch $@ $(VENV)/papers.stamp
