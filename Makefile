# make run    set everything up and run the whole pipeline on the embedded default
# make test   set everything up and run ruff, mypy and the tests
# make ui     the runs' pages (MLflow)
# make lock   write requirements.lock from what is installed
# make clean  remove what runs produced; models and the work cache stay

PYTHON ?= python3.11
VENV := .venv
PIP = $(VENV)/bin/python -m pip install -q --disable-pip-version-check
PIP_FAILED = { echo "error: pip could not install the packages (its own lines stand above); they come from a Python package index, so set-up needs a network or an index that pip is configured for; 'make setup' goes on where it stopped" >&2; exit 2; }
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export DVC_NO_ANALYTICS := 1
export MLFLOW_DISABLE_TELEMETRY := true
export PYTHONUTF8 := 1
# A venv of the caller's must not shine through.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.PHONY: setup models run test ui clean lock

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is not installed; shiyan needs Python 3.11 (or name it: make PYTHON=/path/to/python3.11)" >&2; exit 2; }
	@command -v git >/dev/null || { echo "error: git is not installed; DVC needs it" >&2; exit 2; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (about three minutes the first time)"
	@# torch first: the packages after it would else draw a build of their own choosing.
	@$(PIP) torch==2.13.0 || $(PIP_FAILED)
	@$(PIP) -r requirements.lock || $(PIP_FAILED)
	@$(PIP) --no-deps --no-build-isolation -e . || $(PIP_FAILED)
	@touch $@

models: setup
	@shiyan models fetch

run: setup
	@shiyan compose --offer
	@shiyan models fetch
	@dvc repro
	@shiyan results

test: setup
	@shiyan compose --check
	ruff check .
	ruff format --check .
	mypy
	@shiyan models fetch qwen2.5-coder-0.5b
	pytest

ui: setup
	@shiyan ui

clean:
	rm -rf data plots metrics/*.json mlflow dvc_plots report

lock:
	@{ echo "# The exact versions that ran; torch's local build tag is left to the platform."; \
	  $(VENV)/bin/python -m pip freeze --all --exclude-editable --exclude pip \
	  | sed 's/^torch==2.13.0+.*/torch==2.13.0/'; } > requirements.lock
