"""A small comparison for tests: an XOR problem, two methods, three folds."""

from pathlib import Path

from randsel.experiments._specification import Spec, load_table


def small_spec(**options):
    defaults = {
        "name": "small",
        "data": ({"name": "xor", "make": "make_xor", "n_samples": 60, "n_features": 8, "random_state": 3},),
        "methods": ({"name": "randSel"}, {"name": "Corr. Coeff."}),
        "gammas": ("median",),
        "folds": 3,
        "reshuffles": 2,
    }
    return Spec(**{**defaults, **options})


def tables_of(spec):
    return {entry["name"]: load_table(entry, Path()) for entry in spec.data}


def without_times(results):
    return {key: {k: v for k, v in result.items() if k != "seconds"} for key, result in results.items()}
