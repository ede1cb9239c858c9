# Everything is installed in .venv, with the versions pinned in the lock files.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE_TESTS := tests/selectors/test_randsel.py tests/contracts/test_estimator_checks.py tests/selectors/test_interaction_scan.py tests/contracts/test_progress.py

.PHONY: help demo test test-slow test-kernels lint types check check-versions kill nightly fuzz bench bench-peers bench-plink bench-growth bench-large bench-gpu bench-check bench-sketch bench-recovery readme bench-auto bench-centring bench-interactions bench-rules bench-real bench-errors bench-outcomes bench-scaling bench-reading bench-mkl bench-select bench-decision formats gallery screenshots docs dist check-dist lock clean bench-dask bench-sparse bench-wide bench-all bench-speed bench-cost bench-fresh bench-smallest bench-figure-one bench-table-one bench-table-two bench-blackbox pages figures command-line

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: .venv/user  ## find the two features among 200 whose XOR is the label, and draw the culling path
	$(BIN)/randsel demo

# tests run in several processes; tests that share an expensive fixture stay in one
PYTEST := $(BIN)/python -m pytest --numprocesses $(or $(JOBS),2) --dist loadgroup

test: .venv/dev  ## run the tests, except slow ones, with coverage; JOBS=4 uses four processes
	$(PYTEST) -m "not slow" --cov --cov-report=term:skip-covered

test-slow: .venv/dev  ## run the slow tests: interrupted and killed runs, malicious files, simulations
	$(PYTEST) -m slow -o faulthandler_timeout=400

test-kernels: build/kernels/ready  ## run the Triton kernels of the scan of pairs by Triton's interpreter; a minute, and 1 GB for Triton
	TRITON_INTERPRET=1 PYTHONPATH=src build/kernels/bin/python -m pytest -q -p no:cacheprovider tests/interactions/test_fused_tiles.py

lint: .venv/dev  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev  ## check static types
	$(BIN)/mypy

check: lint types test test-slow  ## run all checks that must pass

# older versions of scikit-learn parametrise their checks in a way that pytest has deprecated
check-versions: build/sklearn-1.7.2/ready build/sklearn-1.8.0/ready  ## run the core tests with older versions of scikit-learn; ten minutes
	for version in 1.7.2 1.8.0; do \
		build/sklearn-$$version/bin/python -m pytest -q -p no:cacheprovider \
			-W ignore::pytest.PytestRemovedIn10Warning $(CORE_TESTS) || exit 1; \
	done

kill: .venv/dev  ## kill three long jobs at 20 random moments each, and compare their outputs with undisturbed runs; 25 minutes
	$(BIN)/python benchmarks/scale/killed.py --out docs/results/killed.md

nightly: .venv/dev kill  ## run kill, test ten times as many generated tables as make test (half an hour), then run fuzz (two hours)
	RANDSEL_CASES=2000 $(BIN)/python -m pytest -q tests/contracts/test_properties.py
	$(MAKE) fuzz

FUZZ_SECONDS ?= 600
FUZZ_READERS ?=
fuzz: build/fuzz/ready  ## fuzz the file readers; FUZZ_SECONDS each (600), FUZZ_READERS="npz mat" for some, resumable
	build/fuzz/bin/python tests/robustness/fuzz_readers.py --seconds $(FUZZ_SECONDS) --out build/fuzz-corpus $(FUZZ_READERS)

bench: bench-speed bench-peers  ## run bench-speed and bench-peers

bench-all: .venv/dev  ## make all pages of results that are older than their sources; a day on two cores, resumable; PAGES=cost,fresh for some
	$(BIN)/python benchmarks/run_all.py $(if $(PAGES),--only $(PAGES))

pages: .venv/dev  ## list the pages of results that are older than their sources, and write their index
	$(BIN)/python tools/check_pages.py --index

figures: .venv/dev  ## print the figures that other pages quote: Dask's price, threshold for a GPU, memory factor
	$(BIN)/python tools/check_pages.py --figures

bench-speed: .venv/dev  ## measure speed and memory relative to reference operations; a minute
	$(BIN)/python benchmarks/speed/speed.py --out docs/results/speed.md

bench-cost: .venv/dev  ## test the paper's claim on cost: its algorithm, BaHSIC and FoHSIC as samples and features grow; 15 minutes
	$(BIN)/python benchmarks/speed/cost.py --out docs/results/cost.md

bench-fresh: .venv/dev  ## compare numbers of rank functions on problems that did not choose them; half an hour
	$(BIN)/python benchmarks/quality/fresh.py --out docs/results/fresh.md

bench-smallest: .venv/dev build/smallest/ready  ## measure how often SmallestSet selects exactly the true features; an hour on two cores, resumable
	$(BIN)/python benchmarks/quality/smallest.py --out docs/results/smallest.md

bench-figure-one: .venv/dev  ## draw figure 1 by the paper's algorithm and by the default; a few minutes
	$(BIN)/python benchmarks/quality/paper.py figure1 --out docs/results/figure1.md

bench-table-one: .venv/dev  ## repeat table 1 of the paper; hours on two cores (JOBS=16 for as many processes), resumable
	$(BIN)/python benchmarks/quality/paper.py table1 --jobs $(or $(JOBS),2) --out docs/results/table1.md

bench-table-two: .venv/dev  ## repeat table 2 of the paper on public data; a day on two cores (JOBS=16 for as many processes), resumable
	$(BIN)/python benchmarks/quality/paper.py table2 --jobs $(or $(JOBS),2) --out docs/results/table2.md

bench-blackbox: .venv/dev  ## repeat the paper's pipeline on a stand-in for the Black Box challenge; an hour, resumable
	$(BIN)/python benchmarks/quality/paper.py blackbox --out docs/results/blackbox.md

bench-peers: .venv/dev build/peers/ready  ## compare with other packages on one core, ten data sets per problem; 90 minutes, resumable
	$(BIN)/python benchmarks/peers/peers.py --out docs/results/peers.md

bench-plink: .venv/dev  ## compare the scan of SNP pairs with PLINK (Debian package plink1.9); minutes
	$(BIN)/python benchmarks/peers/plink.py --out docs/results/plink.md

bench-growth: .venv/dev  ## measure how time and memory grow with samples and features; 15 minutes, resumable
	$(BIN)/python benchmarks/scale/growth.py --out docs/results

bench-large: .venv/dev  ## fit 100 000 features, a table larger than the memory limit, 100 000 samples, and 2350×230 000; 15 minutes
	$(BIN)/python benchmarks/scale/large.py --out docs/results/large.md

bench-sparse: .venv/dev  ## fit a sparse table of 20 000 × 20 000 counts within 4 GB; ten minutes
	$(BIN)/python benchmarks/scale/sparse_tables.py --out docs/results/sparse.md

bench-wide: .venv/dev  ## find pairs among 100 000 features and triples among 1000 SNPs; half an hour on two cores, resumable (DEVICE=cuda for a GPU)
	$(BIN)/python benchmarks/scale/wide.py $(if $(DEVICE),--device $(DEVICE)) --out docs/results/wide.md

bench-gpu: .venv/dev  ## measure culling path, pairs and bootstrap on a CUDA device; three minutes
	$(BIN)/python benchmarks/speed/gpu.py --out docs/results/gpu.md

bench-dask: .venv/dev  ## compare a local Dask cluster of one to four workers with joblib's processes; five minutes
	$(BIN)/python benchmarks/scale/cluster.py --out docs/results/dask.md

bench-sketch: .venv/dev  ## what sketching the second-order term gains on one core; three minutes
	$(BIN)/python benchmarks/speed/sketch.py

bench-check: .venv/dev  ## fail if a speed ratio is 30 % worse than in benchmarks/speed/ratios.json; a minute
	$(BIN)/python benchmarks/speed/check.py

bench-recovery: .venv/dev  ## measure how often relevant features are ranked first, over seeds; half an hour
	$(BIN)/python benchmarks/quality/recovery.py --out docs/results/recovery.md

readme: .venv/dev  ## update the tables of README.md and docs/explanation/comparison.md, and the figures that pages quote
	$(BIN)/python tools/readme_summary.py

bench-auto: .venv/dev  ## measure how many features "auto" selects, and how often noise stands out; ten minutes
	$(BIN)/python benchmarks/quality/auto.py --out docs/results/auto.md

bench-centring: .venv/dev  ## measure the gain of centring the expected kernel by rows and columns; half a minute
	$(BIN)/python benchmarks/quality/centring.py

bench-interactions: .venv/dev  ## measure recall, errors and speed of InteractionScan; most of an hour on two cores, resumable
	$(BIN)/python benchmarks/quality/interactions.py

bench-rules: .venv/dev  ## compare culling rules, another kernel and the scan; ten minutes on two cores
	$(BIN)/python benchmarks/quality/rules.py --out docs/results/rules.md

bench-real: .venv/dev  ## compare selections on the real tables of ../shared/data by accuracy; hours on two cores, resumable
	$(BIN)/python benchmarks/quality/real.py --out docs/results/real.md

bench-errors: .venv/dev  ## measure size and power of the p-values, compared with classical tests; an hour on two cores, resumable
	$(BIN)/python benchmarks/quality/errors.py --archive benchmarks/archive/errors.jsonl.xz --out docs/results/errors.md

bench-outcomes: .venv/dev build/outcomes/ready  ## measure recall, errors and power with covariates, batches, survival, missing values, known markers; 6000 s of one core (JOBS=16 for as many processes), resumable
	$(BIN)/python benchmarks/quality/outcomes.py --jobs $(or $(JOBS),2) --archive benchmarks/archive/outcomes.jsonl.xz --out docs/results/outcomes.md

bench-scaling: .venv/dev  ## compare scaled and unscaled columns on the linear Weston problem; a minute
	$(BIN)/python benchmarks/quality/scaling.py --out docs/results/scaling.md

bench-reading: .venv/dev  ## compare reading a CSV file of 50 000 columns with pandas and numpy; a minute
	$(BIN)/python benchmarks/speed/reading.py --out docs/results/reading.md

bench-mkl: .venv/dev build/mkl/ready  ## compare LPBoostMKL with MKLpy: time, memory, accuracy; ten minutes, resumable
	$(BIN)/python benchmarks/peers/mkl.py --out docs/results/mkl.md

bench-select: .venv/dev  ## measure randsel select on a CSV file of 50 000 columns; three minutes
	$(BIN)/python benchmarks/speed/selecting.py --whole --out docs/results/select.md

bench-decision: .venv/dev  ## compare decision rules of the panel model on the classification sets; a minute
	$(BIN)/python benchmarks/quality/decision.py --repeats 10 --out docs/results/decision.md

formats: .venv/dev  ## compare selections from the colon cancer data as CSV, Parquet and h5ad; a minute
	$(BIN)/python benchmarks/quality/formats.py

command-line: .venv/dev  ## write docs/reference/command_line.md from the help of the commands
	$(BIN)/python tools/command_line.py

gallery: .venv/dev  ## run the examples and write their pages; two minutes
	$(BIN)/python tools/gallery.py

screenshots: .venv/dev  ## take screenshots of a report of simulated data (Debian package chromium); a minute
	$(BIN)/python tools/screenshots.py

docs: .venv/dev build/docs/ready  ## run doctests and gallery, build the site into build/site-docs; three minutes
	$(BIN)/python -m pytest -q src tests/contracts/test_docs.py
	$(BIN)/python tools/gallery.py --check
	$(BIN)/python tools/check_pages.py --index
	rm -rf build/site-docs
	build/docs/bin/python -m sphinx -W --keep-going -q -b html docs build/site-docs
	$(BIN)/python tools/site.py build/site-docs

dist: build/docs/ready  ## build the wheel and the source distribution into dist
	rm -rf dist
	build/docs/bin/python -m build --no-isolation --outdir dist > build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	@ls dist

check-dist: dist  ## check that all pages of results are current; install both into fresh environments, run the demo and some tests
	$(PYTHON) tools/check_pages.py --strict
	$(PYTHON) tools/check_dist.py dist

lock:  ## update the pinned dependencies of development and documentation
	$(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip --quiet install pip-tools
	.venv/lock/bin/pip-compile --quiet --upgrade --extra dev --strip-extras --allow-unsafe --no-header \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --annotation-style=line \
		--output-file requirements-dev.lock pyproject.toml
	.venv/lock/bin/pip-compile --quiet --upgrade --extra docs --strip-extras --allow-unsafe --no-header \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --annotation-style=line \
		--constraint requirements-dev.lock --output-file requirements-docs.lock pyproject.toml
	rm -rf .venv/lock

clean:  ## remove the environment, caches, build and dist
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "randsel needs Python 3.11 or later; name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }

# what a user gets, at the versions of the lock
.venv/user: pyproject.toml requirements-dev.lock | .venv/bin/python
	$(PIP) install --constraint requirements-dev.lock hatchling editables
	$(PIP) install --no-build-isolation --constraint requirements-dev.lock --editable '.[report,files]'
	@touch $@

.venv/dev: pyproject.toml requirements-dev.lock | .venv/bin/python
	$(PIP) install --requirement requirements-dev.lock
	$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

# the site is built in an environment of its own, so that tests do not wait for its packages
build/docs/ready: pyproject.toml requirements-docs.lock
	$(PYTHON) -m venv build/docs
	build/docs/bin/python -m pip --disable-pip-version-check --quiet install --requirement requirements-docs.lock
	build/docs/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation --no-deps --editable .
	@touch $@

# the peers at the versions of the lock where they share packages with us; one that cannot be installed is reported as such
build/peers/ready: benchmarks/peers/peers.txt requirements-dev.lock
	$(PYTHON) -m venv build/peers
	-xargs -n 1 build/peers/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint requirements-dev.lock < benchmarks/peers/peers.txt
	@touch $@

# the fuzzer is a tool of the nightly run only; what it feeds is installed at the versions of the lock
build/fuzz/ready: tests/robustness/fuzz_readers.txt pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv build/fuzz
	build/fuzz/bin/python -m pip --disable-pip-version-check --quiet install --constraint requirements-dev.lock \
		--requirement tests/robustness/fuzz_readers.txt hatchling editables
	build/fuzz/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation \
		--constraint requirements-dev.lock --editable '.[report,files]'
	@touch $@

# Triton beside the versions of the lock; its interpreter needs no GPU
build/kernels/ready: .venv/dev
	$(PYTHON) -m venv build/kernels
	build/kernels/bin/python -m pip --disable-pip-version-check --quiet install triton
	ls -d $(CURDIR)/.venv/lib/python*/site-packages > $$(ls -d build/kernels/lib/python*/site-packages)/randsel-dev.pth
	@touch $@

# MKLpy and what it needs, torch at the version of the lock; if it cannot be installed, the benchmark says so
build/mkl/ready: benchmarks/peers/mkl.txt requirements-dev.lock
	$(PYTHON) -m venv build/mkl
	-build/mkl/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint requirements-dev.lock --requirement benchmarks/peers/mkl.txt
	@touch $@

# scikit-survival at the versions of the lock; if it cannot be installed, the benchmark leaves real survival data out
build/outcomes/ready: benchmarks/quality/outcomes.txt requirements-dev.lock
	$(PYTHON) -m venv build/outcomes
	-build/outcomes/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint requirements-dev.lock --requirement benchmarks/quality/outcomes.txt
	@touch $@

# xicorpy, which needs an older pandas than the lock; if it cannot be installed, the page says that FOCI failed
build/smallest/ready: benchmarks/quality/smallest.txt
	$(PYTHON) -m venv build/smallest
	-build/smallest/bin/python -m pip --disable-pip-version-check --quiet install --requirement benchmarks/quality/smallest.txt
	@touch $@

# another scikit-learn beside the versions of the lock; before 1.9 it asks frames for __dataframe__, which polars 2
# no longer has
build/sklearn-%/ready: requirements-dev.lock
	$(PYTHON) -m venv build/sklearn-$*
	grep -vE '^(scikit-learn|polars|polars-runtime-32)==' requirements-dev.lock > build/sklearn-$*/constraints.txt
	build/sklearn-$*/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint build/sklearn-$*/constraints.txt scikit-learn==$* array-api-compat click hypothesis pandas polars==1.30.0 pytest hatchling editables
	build/sklearn-$*/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation --no-deps --editable .
	@touch $@
