# make run    set everything up and run the whole pipeline on the embedded default
# make test   set everything up and run every check and test
# make check  ruff, mypy and the quick tests: what to run at every change
# make ui     the runs' pages (MLflow)
# make lock   resolve requirements.lock from pyproject.toml (UPGRADE=1: to the newest versions)
# make clean  remove what runs produced; models and the work cache stay

PYTHON ?= python3.11
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export DVC_NO_ANALYTICS := 1
export MLFLOW_DISABLE_TELEMETRY := true
export PYTHONUTF8 := 1
# Files of tests are independent: each goes to a free process, those that take longest first.
PYTEST := pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 10
# A venv of the caller's must not shine through.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.PHONY: setup models run test check lint ui clean lock

setup:
	@command -v "$(PYTHON)" >/dev/null || { echo "error: $(PYTHON) is not installed; shiyan needs Python 3.11 (or name it: make PYTHON=/path/to/python3.11)" >&2; exit 2; }
	@"$(PYTHON)" tools/setup.py

models: setup
	@shiyan models fetch

run: setup
	@shiyan compose --offer
	@shiyan models fetch
	@dvc repro
	@shiyan results

lint: setup
	@shiyan compose --check
	ruff check .
	ruff format --check .
	mypy

check: lint
	$(PYTEST) -m "not (dvc or hydra or mlflow or model or server or training)"

test: lint
	@shiyan models fetch qwen2.5-coder-0.5b
	$(PYTEST)

ui: setup
	@shiyan ui

clean:
	rm -rf data plots metrics/*.json mlflow dvc_plots report

# Not after set-up, which refuses a lock that is wrong.
lock:
	@"$(PYTHON)" tools/lock.py $(if $(UPGRADE),upgrade,write)
