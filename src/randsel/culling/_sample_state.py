"""What a sample has summed up in the course of culling, to arrays and back: to sum again would round otherwise."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from randsel._numerics.arrays import as_index, device_of, is_single, namespace, to_numpy
from randsel._numerics.columns import keep_columns
from randsel._utils.typing import Array
from randsel.contribution._sample import PairSums, Sample, Sketch, Step


def to_arrays(sample: Sample) -> dict[str, Array]:
    """Return all that `Sample.keep` hands on but the columns themselves."""
    arrays: dict[str, Any] = {
        "sample_fixed": sample.fixed,
        "sample_moments": sample.moments,
        "sample_flags": [sample.outlying is None, is_single(sample.inside), sample._summed_at],
    }
    # bounds on columns that are gone
    if "extremes" in sample.__dict__:
        arrays["sample_extremes"] = sample.extremes
    if (sums := sample._sums) is not None:
        arrays |= {
            f"sums_{name}": getattr(sums, name) for name in ("products", "d2") if getattr(sums, name) is not None
        }
        if sums.step is not None:
            arrays["sums_step"] = [sums.step.slope, sums.step.size, sums.lost]
        if sums.sketch is not None:
            arrays |= {f"sketch_{field.name}": getattr(sums.sketch, field.name) for field in fields(Sketch)}
    return {name: to_numpy(values) for name, values in arrays.items()}


def of_arrays(arrays: Mapping[str, Array], whole: Sample, columns: Array) -> Sample:
    """Return the sample of some columns of the whole one, with the sums that `to_arrays` took apart."""

    def placed(name: str) -> Any:
        if name not in arrays:
            return None
        return namespace(whole.target.Y).asarray(arrays[name], device=device_of(whole.target.Y))

    sums = None
    if "sums_products" in arrays:
        parts = [placed(f"sketch_{field.name}") for field in fields(Sketch)]
        slope, size, lost = arrays["sums_step"].tolist() if "sums_step" in arrays else (0.0, 0.0, 0.0)
        sums = PairSums(
            placed("sums_products"),
            placed("sums_d2"),
            None if parts[0] is None else Sketch(*parts),
            Step(slope, size) if "sums_step" in arrays else None,
            lost,
        )
    never_outlying, in_single, summed_at = (int(flag) for flag in arrays["sample_flags"])
    X = keep_columns(whole.X, as_index(columns, whole.target.Y))
    sample = Sample(X, whole.target, arrays["sample_fixed"], placed("sample_moments"), sums, summed_at)
    # as `Sample.keep` hands them on, where they hold for all columns that there were
    if never_outlying:
        sample.__dict__["outlying"] = None
    if "sample_extremes" in arrays:
        sample.__dict__["extremes"] = tuple(arrays["sample_extremes"].tolist())
    if in_single:
        sample.__dict__["inside"] = namespace(whole.target.Y).float32
    return sample
