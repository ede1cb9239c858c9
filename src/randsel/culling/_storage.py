"""Culling paths and unfinished states as arrays, for files."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from randsel._numerics.arrays import as_index, to_numpy
from randsel._numerics.columns import keep_columns
from randsel._utils.files import Stages, check_arrays, check_indices
from randsel._utils.typing import Array
from randsel.contribution import ColumnMoments, Extremes, PairSums, Precision, Sample, Sketch
from randsel.culling._path import ARRAYS, NUMBERS, PER_FEATURE, Chance, CullingPath, RecordedRounds, Round
from randsel.culling._rounds import CullingState, FinishedRound

#: Largest n_features × n_classes for which alignments by chance are simulated; only damaged files exceed it.
MAX_SIMULATED = 200_000_000
#: Types and lengths of the arrays of `path_to_arrays`, as `check_arrays` expects them.
STORED_SHAPES = {
    "features": ("iu", "features of rounds"),
    **dict.fromkeys(PER_FEATURE, ("f", "features of rounds")),
    "dropped": ("iu", "dropped"),
    "fixed": ("iu", "fixed"),
    **{f"n_{name}": ("iu", "rounds") for name in ("features", "dropped", "fixed")},
    **dict.fromkeys(("gamma", "alignment", "ridge", "fourth_moment"), ("f", "rounds")),
    "size": ("iu", "rounds"),
    "errors": ("f", "errors"),
    "noise": ("f", 2),
    "spectrum": ("f", "spectrum"),
    "chance": ("f", 3),
    "order": ("iu", "order"),
    "null_sd": ("f",),
}


# ---------------------------------------------------------------- finished paths


def path_to_arrays(path: CullingPath) -> dict[str, Any]:
    """Return the path as arrays for a file; arrays of the rounds are concatenated."""
    chance = path.rounds[0].by_chance
    return {
        **_stack_rounds(path.rounds),
        "spectrum": chance.spectrum,
        "chance": [chance.n, chance.null_sd, chance.n_blocks],
        "order": path.order,
        "null_sd": path.null_sd,
        "noise": [np.nan if path.noise_pvalue is None else path.noise_pvalue, path.independent],
    }


def restore_path(arrays: Mapping[str, Array], n_features: int) -> CullingPath:
    """Return the path that `path_to_arrays` stored.

    Files may be damaged or forged: raises ValueError unless the arrays describe a path of `n_features` columns.
    """
    check_arrays(arrays, STORED_SHAPES)
    check_indices(arrays["order"], n_features)
    for name in ("features", "dropped", "fixed"):
        check_indices(arrays[name], n_features)
        check_indices(arrays[f"n_{name}"], n_features + 1)
        if int(arrays[f"n_{name}"].sum()) != len(arrays[name]):
            raise ValueError(f"the lengths in 'n_{name}' do not add up to the length of {name!r}")
    # Alignments by chance are simulated for all sizes up to n, and looked up by the size of a round.
    n, null_sd, n_blocks = arrays["chance"].tolist()
    if not (
        len(np.unique(arrays["order"])) == len(arrays["order"])
        and 1 <= n <= n_features
        and n_blocks >= 1
        and n * len(arrays["spectrum"]) <= MAX_SIMULATED
        and len(arrays["gamma"])
        and int(arrays["n_features"].min()) >= 1
        and len(arrays["errors"]) % len(arrays["gamma"]) == 0
        and (len(arrays["errors"]) == 0) == np.isnan(arrays["main"]).all()  # from the bootstrap
        and np.all((arrays["errors"] >= 0.0) & (arrays["errors"] < np.inf))
    ):
        raise ValueError("the arrays do not describe a culling path")
    check_indices(arrays["size"], int(n) + 1, least=1)
    chance = Chance(arrays["spectrum"], int(n), null_sd, int(n_blocks))
    rounds = RecordedRounds(_unstack_rounds(arrays, chance))
    pvalue, independent = arrays["noise"].tolist()
    path = CullingPath(rounds, arrays["order"], float(arrays["null_sd"]))
    return replace(path, noise_pvalue=None if np.isnan(pvalue) else pvalue, independent=bool(independent))


def _stack_rounds(rounds: tuple[Round, ...]) -> dict[str, Any]:
    return {
        **{name: np.concatenate([getattr(r, name) for r in rounds]) for name in ARRAYS},
        **{f"n_{name}": [len(getattr(r, name)) for r in rounds] for name in ("features", "dropped", "fixed")},
        **{name: [getattr(r, name) for r in rounds] for name in NUMBERS},
        "errors": np.concatenate([r.errors for r in rounds]),
    }


def _unstack_rounds(arrays: Mapping[str, Array], chance: Chance) -> list[Round]:
    """Return the rounds that `_stack_rounds` concatenated."""
    ends = {name: np.cumsum(arrays[f"n_{name}"])[:-1].astype(int) for name in ("features", "dropped", "fixed")}
    values: dict[str, Any] = {name: np.split(arrays[name], ends.get(name, ends["features"])) for name in ARRAYS}
    values |= {name: arrays[name].tolist() for name in NUMBERS}
    values["errors"] = np.reshape(arrays["errors"], (len(arrays["gamma"]), -1))
    return [
        Round(by_chance=chance, **{name: of_rounds[number] for name, of_rounds in values.items()})
        for number in range(len(arrays["gamma"]))
    ]


# ---------------------------------------------------------------- unfinished states


def save_state(stages: Stages, finished: FinishedRound) -> None:
    """Save the state that the next round starts from."""
    if finished.next_state is not None:
        stages.save(len(finished.next_state.rounds), partial(state_to_arrays, finished.next_state))


def state_to_arrays(state: CullingState) -> dict[str, Any]:
    """Return the state as arrays for a checkpoint."""
    return {
        **_sample_to_arrays(state.sample),
        **_stack_rounds(tuple(r.to_host() for r in state.rounds)),
        "columns": to_numpy(state.columns),
        "streak": state.streak,
        "fixed_columns": np.array(list(state.fixed_scores), dtype=int),
        "fixed_keys": np.array(list(state.fixed_scores.values())),
    }


def restore_state(arrays: Mapping[str, Array], start: CullingState) -> CullingState:
    """Return the state that `state_to_arrays` stored; `start` is the state before the first round."""
    columns = as_index(arrays["columns"], start.sample.target.Y)
    return replace(
        start,
        sample=_restore_sample(arrays, start.sample),
        rounds=tuple(_unstack_rounds(arrays, start.chance)),
        columns=columns,
        streak=arrays["streak"],
        fixed_scores=dict(zip(arrays["fixed_columns"].tolist(), arrays["fixed_keys"].tolist(), strict=True)),
    )


def _sample_to_arrays(sample: Sample) -> dict[str, Array]:
    """Return what `Sample.drop_features` carries on, except the columns: computing it again would round differently."""
    arrays: dict[str, Any] = {
        "sample_fixed": sample.fixed,
        "sample_moments": sample.moments.values,
        "sample_extremes": sample.moments.extremes,
        "sample_flags": [sample.moments.outlying is not None, sample.n_summed],
    }
    sums = sample.carried_sums
    if sums is not None:
        arrays |= {"sums_products": sums.products, "sums_d2": sums.d2}
        if sums.sketch is not None:
            arrays |= {f"sketch_{field.name}": getattr(sums.sketch, field.name) for field in fields(Sketch)}
    return {name: to_numpy(values) for name, values in arrays.items() if values is not None}


def _restore_sample(arrays: Mapping[str, Array], first: Sample) -> Sample:
    """Return the sample that `_sample_to_arrays` stored, with its columns taken from the first round."""

    def on_device(name: str) -> Any:
        return first.xp.asarray(arrays[name], device=first.precision.device) if name in arrays else None

    sums = None
    if "sums_products" in arrays:
        sketch = [on_device(f"sketch_{field.name}") for field in fields(Sketch)]
        sums = PairSums(
            on_device("sums_products"), on_device("sums_d2"), None if sketch[0] is None else Sketch(*sketch)
        )
    any_outlying, n_summed = (int(flag) for flag in arrays["sample_flags"])
    extremes = Extremes(*arrays["sample_extremes"].tolist())
    moments = ColumnMoments.restore(on_device("sample_moments"), extremes, any_outlying=bool(any_outlying))
    X = keep_columns(first.X, as_index(arrays["columns"], first.target.Y))
    precision = Precision.choose(X, first.target, moments)
    return Sample(X, first.target, arrays["sample_fixed"], moments, precision, first.factor, sums, n_summed)
