"""Which features of a table are chosen, by culling and by tests, and with which settings."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

from randsel._sklearn.validation import check_strata
from randsel._utils.typing import Array
from randsel.culling._path import CullingPath
from randsel.interactions._evidence import main_effects
from randsel.interactions._forward_selection import LEVEL
from randsel.selectors._interaction_scan import InteractionScan
from randsel.selectors._randsel import RandSel
from randsel.tables._read import Table, imputer
from randsel.targets._kinds import OutcomeKind

#: Samples times features squared up to which all pairs are tested by default: about half a minute on one core.
PAIR_BUDGET = 3e10
#: Samples (or groups) that a half needs.
LEAST_HALF = 4

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Settings:
    """How a table is analysed; `top` and `fdr` say which features are selected, see `chosen`.

    Attributes
    ----------
    top
        Select at most as many features; None: no limit.
    fdr
        Select features of at most this q-value; None: see `chosen`.
    task
        "classification", "regression" or "auto".
    pairs
        Whether pairs are tested: "all", "none", or "auto", which is up to `PAIR_BUDGET`.
    halves, folds
        Half-samples (rounded up to even) and folds of the cross-validation; 0 for none.
    seed
        Of halves and folds.
    memory, device
        `max_memory` and `device` of `RandSel`.
    """

    top: int | None = None
    fdr: float | None = None
    task: str = "auto"
    pairs: str = "auto"
    halves: int = 50
    folds: int = 5
    seed: int = 0
    memory: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            msg = f"top={self.top} selects nothing; ask for 1 or more, or leave it out."
            raise ValueError(msg)
        if self.fdr is not None and not 0.0 < self.fdr < 1.0:
            msg = f"fdr={self.fdr:g} is no share of false discoveries; take a number between 0 and 1, such as 0.1."
            raise ValueError(msg)
        for name, least in (("halves", 2), ("folds", 2)):
            value = getattr(self, name)
            if value < least and value != 0:
                msg = f"{name}={value} is too few; take {least} or more, or 0 to leave them out."
                raise ValueError(msg)


@dataclass(frozen=True)
class Findings:
    """What `InteractionScan` found, or the tests of main effects alone.

    Attributes
    ----------
    p, q
        Per feature.
    partner
        Column of the partner, -1 if there is none.
    taken
        Columns that forward steps took in.
    pairs
        As `InteractionScan.pairs_`; None if pairs were not tested.
    """

    p: Array
    q: Array
    partner: Array
    taken: Array
    pairs: Array | None


@contextmanager
def remarked(remarks: list[str]) -> Iterator[None]:
    """Collect warnings as sentences."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    remarks += [str(remark.message) for remark in caught]


def filled(table: Table, rows: Array | None = None) -> Table:
    """Replace missing values by the medians of some rows, or of all."""
    if not np.isnan(table.X).any():
        return table
    if table.missing == "error":
        msg = "X has missing values; read the table with missing='median' or 'drop-columns', or impute them first."
        raise ValueError(msg)
    step = imputer().fit(table.X if rows is None else table.X[rows])
    return replace(table, X=step.transform(table.X))


def units(table: Table) -> Table:
    """Return the samples, or the means of their groups where the target is the same within every group.

    Samples of one donor are no independent evidence on what differs between donors.
    """
    if table.groups is None:
        return table
    groups, first, of = np.unique(table.groups, return_index=True, return_inverse=True)
    if len(groups) == len(table.y) or not np.array_equal(table.y[first][of], table.y):
        return table
    if len(groups) < LEAST_HALF:
        msg = (
            f"the target is the same within each of the {len(groups)} groups, and fewer than {LEAST_HALF} groups tell "
            "nothing about it; leave --groups out only if samples of a group are independent."
        )
        raise ValueError(msg)
    share = np.zeros((len(groups), len(table.y)), dtype=table.X.dtype)
    share[of, np.arange(len(of))] = 1.0
    X = share @ table.X / share.sum(axis=1, keepdims=True)
    for j in table.nominal:
        # codes have no mean: the most frequent level, the first of several
        X[:, j] = [_most_frequent(table.X[of == k, j]) for k in range(len(groups))]
    batch = table.batch
    if batch is not None:
        batch = batch[first] if np.array_equal(batch[first][of], batch) else None
    return replace(table, X=X, y=table.y[first], groups=None, batch=batch, ids=None)


def _most_frequent(values: Array) -> Any:
    levels, counts = np.unique(values, return_counts=True)
    return levels[np.argmax(counts)]


def selector_of(kind: OutcomeKind, settings: Settings, **more: Any) -> RandSel:
    """Return the selector that settings mean."""
    return RandSel(
        target=kind.name, max_memory=settings.memory, device=settings.device, random_state=settings.seed, **more
    )


def culled(
    table: Table, kind: OutcomeKind, settings: Settings, on_round: Any = 0, checkpoint: Path | None = None
) -> CullingPath:
    """Cull on all rows of a table."""
    selector = selector_of(kind, settings, verbose=on_round, checkpoint=checkpoint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nothing stands out, which is said elsewhere
        path: CullingPath = selector.fit(table.X, table.y).path_
    return path


def findings(
    table: Table,
    kind: OutcomeKind,
    settings: Settings,
    show: Progress,
    n_jobs: int | None = None,
    checkpoint: Path | None = None,
) -> Findings:
    """Test all features, and all pairs if they are wanted and few enough; within groups and batches."""
    m, n = table.X.shape
    strata = strata_of(table)
    nominal = np.zeros(n, dtype=bool)
    nominal[list(table.nominal)] = True
    if settings.pairs == "none" or (settings.pairs == "auto" and m * n**2 > PAIR_BUDGET) or n == 1:
        codes = None if strata is None else check_strata(table.y, None, batch=strata)
        how: dict[str, Any] = {"strata": codes, "n_jobs": n_jobs, "checkpoint": checkpoint}
        p = main_effects(table.X, table.y, kind, nominal=nominal, **how)
        none = np.full(n, -1)
        return Findings(p, np.asarray(false_discovery_control(p)), none, none[:0], None)
    scan = InteractionScan(
        target=kind.name,
        categorical_features=nominal,
        device=settings.device,
        n_jobs=n_jobs,
        checkpoint=checkpoint,
        verbose=lambda done, total: show("testing pairs", done, total),
    ).fit(table.X, table.y, batch=strata)
    return Findings(scan.pvalues_, scan.qvalues_, scan.partner_, scan.taken_, scan.pairs_)


def strata_of(table: Table) -> Array | None:
    """Return which samples are compared with each other; all with all if the target varies within no stratum."""
    given = [np.unique(values, return_inverse=True)[1] for values in (table.groups, table.batch) if values is not None]
    if not given:
        return None
    strata = np.unique(np.stack(given), axis=1, return_inverse=True)[1].ravel()
    if all(len(np.unique(table.y[strata == k])) == 1 for k in np.unique(strata)):
        warnings.warn(
            "The target is the same within every batch, so that no comparison within batches is possible: p and q "
            "compare samples across batches, and cannot tell an effect of the target from one of the batch.",
            UserWarning,
            stacklevel=2,
        )
        return None
    return np.asarray(strata)


def chosen(path: CullingPath, tests: Findings | None, settings: Settings, n_features: int) -> Array:
    """Columns that are selected, in the order of culling.

    With `fdr`, those of at most this q-value; with `top`, at most so many of them, or of all. With neither, the
    features of the best round of culling, if that stands out from noise, and those that forward steps of the tests
    took in; if there are none of either, those of a q-value of at most 0.05.
    """
    order = path.order
    if settings.fdr is not None:
        if tests is None:
            msg = "a selection by q-value needs tests."
            raise ValueError(msg)
        order = order[tests.q[order] <= settings.fdr]
    elif settings.top is None:
        mask = np.zeros(n_features, dtype=bool)
        if path.stands_out:
            mask[order[: len(path.rounds[path.best].features)]] = True
        if tests is not None:
            mask[tests.taken] = True
            mask |= (tests.q <= LEVEL) & (not mask.any())
        order = order[mask[order]]
    return order[: settings.top]
