# Everything happens in .venv; nothing is installed elsewhere. The lock pins what is installed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE_TESTS := tests/selectors/test_randsel.py tests/contracts/test_estimator_checks.py tests/selectors/test_interaction_scan.py tests/contracts/test_progress.py

.PHONY: help demo test test-slow lint types check check-versions kill nightly fuzz bench bench-peers bench-plink bench-growth bench-large bench-gpu bench-check bench-recovery readme bench-auto bench-centring bench-interactions bench-rules bench-scaling bench-reading bench-mkl bench-select formats gallery screenshots docs dist check-dist lock clean bench-dask bench-scale

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: .venv/user  ## find two features whose XOR is the label among 200, and draw how
	$(BIN)/randsel demo

# processes that share the tests; tests that share an expensive fixture stay together
PYTEST := $(BIN)/python -m pytest --numprocesses $(or $(JOBS),2) --dist loadgroup

test: .venv/dev  ## the test suite with coverage, without the slow tests; JOBS=4 for more processes
	$(PYTEST) -m "not slow" --cov --cov-report=term:skip-covered

test-slow: .venv/dev  ## the slow tests: interrupted and killed runs, hostile files, simulations
	$(PYTEST) -m slow -o faulthandler_timeout=400

lint: .venv/dev  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev  ## static types
	$(BIN)/mypy

check: lint types test test-slow  ## all that must pass

# older versions of scikit-learn parametrise their checks in a way that pytest will drop
check-versions: build/sklearn-1.7.2/ready build/sklearn-1.8.0/ready  ## the core tests with older versions of scikit-learn; ten minutes
	for version in 1.7.2 1.8.0; do \
		build/sklearn-$$version/bin/python -m pytest -q -p no:cacheprovider \
			-W ignore::pytest.PytestRemovedIn10Warning $(CORE_TESTS) || exit 1; \
	done

kill: .venv/dev  ## kill -9 at 20 random moments of three long jobs; the outputs are those of undisturbed runs; a quarter of an hour
	$(BIN)/python benchmarks/scale/killed.py --out docs/results/killed.md

nightly: .venv/dev kill  ## kill, ten times as many generated tables as make test, half an hour; then fuzz, two hours
	RANDSEL_CASES=2000 $(BIN)/python -m pytest -q tests/contracts/test_properties.py
	$(MAKE) fuzz

FUZZ_SECONDS ?= 600
FUZZ_READERS ?=
fuzz: build/fuzz/ready  ## the readers on files made to break them; FUZZ_SECONDS each (600), FUZZ_READERS="npz mat" for some, resumable
	build/fuzz/bin/python tests/robustness/fuzz_readers.py --seconds $(FUZZ_SECONDS) --out build/fuzz-corpus $(FUZZ_READERS)

bench: .venv/dev build/peers/ready  ## speed and memory against yardsticks of the same run, a minute; then bench-peers
	$(BIN)/python benchmarks/speed/speed.py --out docs/results/speed.md
	$(BIN)/python benchmarks/peers/peers.py --out docs/results/peers.md

bench-peers: .venv/dev build/peers/ready  ## beside other people's selection, one core; ten minutes a fit at most, resumable
	$(BIN)/python benchmarks/peers/peers.py --out docs/results/peers.md

bench-plink: .venv/dev  ## pairs of SNPs beside PLINK (Debian package plink1.9); minutes
	$(BIN)/python benchmarks/peers/plink.py --out docs/results/plink.md

bench-growth: .venv/dev  ## time and memory as samples and features grow; a quarter of an hour, resumable
	$(BIN)/python benchmarks/scale/growth.py --out docs/results

bench-large: .venv/dev  ## 100 000 features, a table larger than the memory allowed, 100 000 samples; ten minutes
	$(BIN)/python benchmarks/scale/large.py --out docs/results/large.md

bench-scale: .venv/dev  ## what a fit on a cluster costs, from constants measured on one core; five minutes, resumable
	$(BIN)/python benchmarks/scale/scale.py --out docs/results/scale.md

bench-gpu: .venv/dev  ## path, pairs and bootstrap on a CUDA device; three minutes
	$(BIN)/python benchmarks/speed/gpu.py --out docs/results/gpu.md

bench-dask: .venv/dev  ## jobs on a Dask cluster of this machine beside joblib's processes, one to four workers; five minutes
	$(BIN)/python benchmarks/scale/cluster.py --out docs/results/dask.md

bench-check: .venv/dev  ## fails if a ratio of benchmarks/speed/ratios.json has become 30 % worse; a minute
	$(BIN)/python benchmarks/speed/check.py

bench-recovery: .venv/dev  ## how often relevant features come first, over seeds; half an hour, for the bootstrap
	$(BIN)/python benchmarks/quality/recovery.py --out docs/results/recovery.md

readme: .venv/dev  ## put the picture and the summary of docs/results/recovery.md into the README
	$(BIN)/randsel demo --out docs/results/figure1.png
	$(BIN)/python tools/readme_summary.py

bench-auto: .venv/dev  ## how many features "auto" chooses, on problems with an answer and on noise; a minute
	$(BIN)/python benchmarks/quality/auto.py --out docs/results/auto.md

bench-centring: .venv/dev  ## what centring the expected kernel by rows and columns gains; half a minute
	$(BIN)/python benchmarks/quality/centring.py

bench-interactions: .venv/dev  ## recall, errors and speed of InteractionScan; most of an hour on two cores, resumable
	$(BIN)/python benchmarks/quality/interactions.py

bench-rules: .venv/dev  ## rules for culling, another kernel, and the scan compared; ten minutes on two cores
	$(BIN)/python benchmarks/quality/rules.py --out docs/results/rules.md

bench-scaling: .venv/dev  ## linear Weston with and without scaled columns; a minute
	$(BIN)/python benchmarks/quality/scaling.py --out docs/results/scaling.md

bench-reading: .venv/dev  ## time and memory of reading a CSV of 50 000 columns, beside pandas and numpy; a minute
	$(BIN)/python benchmarks/speed/reading.py --out docs/results/reading.md

bench-mkl: .venv/dev build/mkl/ready  ## time, memory and accuracy of LPBoostMKL, beside MKLpy; ten minutes, resumable
	$(BIN)/python benchmarks/peers/mkl.py --out docs/results/mkl.md

bench-select: .venv/dev  ## time and memory of randsel select from a CSV of 50 000 columns to the report; three minutes
	$(BIN)/python benchmarks/speed/selecting.py --whole --out docs/results/select.md

formats: .venv/dev  ## the colon cancer data as CSV, Parquet and h5ad, selected from and compared; a minute
	$(BIN)/python benchmarks/quality/formats.py

gallery: .venv/dev  ## run the examples and write their pages; two minutes
	$(BIN)/python tools/gallery.py

screenshots: .venv/dev  ## a report of simulated data, photographed (Debian package chromium); a minute
	$(BIN)/python tools/screenshots.py

docs: .venv/dev build/docs/ready  ## run doctests and gallery, build the site into build/site-docs; three minutes
	$(BIN)/python -m pytest -q src tests/contracts/test_docs.py
	$(BIN)/python tools/gallery.py --check
	rm -rf build/site-docs
	build/docs/bin/python -m sphinx -W --keep-going -q -b html docs build/site-docs
	$(BIN)/python tools/site.py build/site-docs

dist: build/docs/ready  ## wheel and source distribution, into dist
	rm -rf dist
	build/docs/bin/python -m build --no-isolation --outdir dist > build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	@ls dist

check-dist: dist  ## both install into fresh environments and run the demo; some tests run from the source distribution
	$(PYTHON) tools/check_dist.py dist

lock:  ## pin the dependencies of development and of the documentation anew
	$(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip --quiet install pip-tools
	.venv/lock/bin/pip-compile --quiet --upgrade --extra dev --strip-extras --allow-unsafe --no-header \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --annotation-style=line \
		--output-file requirements-dev.lock pyproject.toml
	.venv/lock/bin/pip-compile --quiet --upgrade --extra docs --strip-extras --allow-unsafe --no-header \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --annotation-style=line \
		--constraint requirements-dev.lock --output-file requirements-docs.lock pyproject.toml
	rm -rf .venv/lock

clean:  ## remove the environment and what tools left
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

# MKLpy and what it needs, torch at the version of the lock; if it cannot be installed, the benchmark says so
build/mkl/ready: benchmarks/peers/mkl.txt requirements-dev.lock
	$(PYTHON) -m venv build/mkl
	-build/mkl/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint requirements-dev.lock --requirement benchmarks/peers/mkl.txt
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
