"""One BLAS thread, so that bits do not depend on the machine; scikit-learn's array API check switched on."""

import importlib
import os
import signal

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ["SCIPY_ARRAY_API"] = "1"

from pathlib import Path

import numpy as np
import pytest
from cluster import cluster

# A shell ignores Ctrl-C for what it starts in the background, and children inherit that; some tests interrupt commands.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items):
    """Keep tests that share an expensive fixture in one process of pytest-xdist; do not trace tests of benchmarks.

    Tracing for the coverage doubles the time of a test, and other tests cover what benchmarks use of the package.
    """
    for item in items:
        if "benchmarks" in item.path.parts:
            item.add_marker(pytest.mark.no_cover)
        info = getattr(item, "_fixtureinfo", None)
        fixtures = [definitions[-1] for definitions in info.name2fixturedefs.values()] if info else []
        # fixtures of plugins have no base
        shared = {fixture.scope: fixture for fixture in fixtures if fixture.baseid and fixture.scope != "function"}
        if "session" in shared:
            item.add_marker(pytest.mark.xdist_group(shared["session"].argname))
        elif "module" in shared:
            item.add_marker(pytest.mark.xdist_group(shared["module"].baseid))


@pytest.fixture
def rng():
    return np.random.default_rng(20131215)


@pytest.fixture
def benchmark_set():
    """Load one of the benchmark data sets, which lie beside the checkout, or skip."""

    def load(name):
        path = SHARED_DATA / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"benchmark data set {name} is not beside this checkout")
        return np.load(path, allow_pickle=False)

    return load


@pytest.fixture(scope="session")
def workers():
    """Four workers of a Dask cluster, for all tests; one that kills a worker starts its own."""
    with cluster(n_workers=4) as started:
        yield started


@pytest.fixture
def modules(monkeypatch):
    """Import a module of a benchmark by name; benchmarks are scripts beside each other and not a package."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(folder / "quality"))
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    return importlib.import_module
