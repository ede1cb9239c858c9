"""Selection from all rows of a table: culling, tests, and the rule that makes the selection.

All samples, every half and every training fold go through these functions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

from randsel._sklearn.base import check_annotations
from randsel._utils.files import FinishedParts
from randsel._utils.text import collect_warnings, warn
from randsel._utils.typing import Array
from randsel.analysis._model import FeatureTests, Rule, Settings
from randsel.analysis._preparation import columns_to_keep, nominal_mask, varying_columns
from randsel.culling import CullingPath
from randsel.interactions import LEVEL, main_effects
from randsel.prediction import batch_to_remove
from randsel.selectors import DEFAULT_PAIRS, InteractionScan, RandSel
from randsel.tables import Table
from randsel.targets import OutcomeKind, Samples, is_constant_within

#: By default, pairs are tested if samples × features² is at most this: about half a minute on one core.
PAIR_BUDGET = 3e10
#: Number of pairs per feature that half-samples and folds test at first, because they report no pairs. A pair only
#: matters if its p-value is below 1/(2(n - 1)): otherwise the p-values of its features are one (eq. 20). By chance, a
#: quarter of a pair per feature is below.
PAIRS_PER_FEATURE = 2
Progress = Callable[[str, float, float], None]  # called with the name of a step, the amount done and the total


@dataclass(frozen=True)
class Execution:
    """Options of a run that do not change its results."""

    parts: FinishedParts = field(default_factory=FinishedParts)  # finished steps, of an earlier run and this one
    show: Progress = lambda *_: None
    n_jobs: int | None = None  # number of half-samples and folds to compute at a time


def cull_table(
    table: Table, kind: OutcomeKind, settings: Settings, on_round: Any = 0, checkpoint: Path | None = None
) -> CullingPath:
    """Return the culling path of all rows of a table."""
    options: dict[str, Any] = {"max_memory": settings.memory, "random_state": settings.seed}
    options["always_keep"] = varying_columns(table.X, columns_to_keep(table, settings)) or None
    selector = RandSel(target=kind.name, device=settings.device, verbose=on_round, checkpoint=checkpoint, **options)
    # If the target is constant within batches, tests compare samples of different batches, and so do permutations.
    batch = batch_to_remove(table)
    with collect_warnings():  # the summary says if nothing stands out
        known = {"groups": table.groups, "batch": batch, "covariates": table.covariates or None}
        path: CullingPath = selector.fit(table.X, table.y, **known).path_
    return path


def run_tests(
    table: Table,
    kind: OutcomeKind,
    settings: Settings,
    execution: Execution,
    checkpoint: Path | None = None,
    n_pairs: int | None = None,
) -> FeatureTests:
    """Test all features, and all pairs if the settings say so; groups, batches, covariates as in `InteractionScan`.

    `n_pairs` is the number of pairs to report, as in `InteractionScan`.
    """
    m, n = table.X.shape
    nominal, batch = nominal_mask(table), table.batch
    if batch is not None and is_constant_within(table.y, batch):
        warn(
            "The target is the same within every batch, so no comparison within batches is possible: p and q "
            "compare samples across batches, and cannot tell an effect of the target from one of the batch.",
            stacklevel=2,
        )
        batch = None
    how: dict[str, Any] = {"n_jobs": execution.n_jobs, "checkpoint": checkpoint}
    if settings.pairs == "none" or (settings.pairs == "auto" and m * n**2 > PAIR_BUDGET) or n == 1:
        known = check_annotations(table.groups, batch, table.covariates or None, None, m)
        y, kind = kind.to_numbers(table.y, None, known.batch, known.covariate_columns)
        samples = Samples.from_groups(table.X, y, None, known.groups, known.batch, nominal, known.covariates)
        p = main_effects(samples, kind, nominal=nominal, **how)
        return FeatureTests(p, np.asarray(false_discovery_control(p)), np.full(n, -1), np.zeros(n, dtype=int), None)
    how |= {"device": settings.device, "verbose": partial(execution.show, "testing pairs")}
    scan = InteractionScan(target=kind.name, categorical_features=nominal, n_pairs=n_pairs, **how)
    scan.fit(table.X, table.y, groups=table.groups, batch=batch, covariates=table.covariates or None)
    return FeatureTests.from_scan(scan)


def choose_rule(
    path: CullingPath, tests: FeatureTests | None, settings: Settings, always_kept: tuple[int, ...] = ()
) -> Rule:
    """Return the rule of selection: that of the settings, or else the first that has something to select.

    Without `top` and `fdr`: the best round, if the features stand out from noise; otherwise significant features, if
    there are any. `tests` may be None where the rule does not depend on them.
    """
    if settings.fdr is not None:
        return Rule("fdr", settings.top, settings.fdr, always_kept)
    if settings.top is not None:
        return Rule("top", settings.top, None, always_kept)
    if path.stands_out:
        return Rule("path", always_kept=always_kept)
    significant = tests is not None and (tests.q <= LEVEL).any()
    return Rule("tests", None, LEVEL, always_kept) if significant else Rule("nothing", always_kept=always_kept)


def select_features(rule: Rule, path: CullingPath, tests: FeatureTests | None) -> Array:
    """Return the columns that a rule selects, in the order of culling, which starts with the features to keep."""
    by_request = np.array(rule.always_kept, dtype=int)
    if rule.name == "nothing":
        return by_request
    # On a half-sample or a fold, a feature to keep may be constant and not in the order.
    order = np.concatenate([by_request, path.order[~np.isin(path.order, by_request)]])
    if rule.name == "path":
        return order[: max(len(path.best_round.features), len(by_request))]
    if rule.fdr is not None:
        if tests is None:
            raise ValueError("a selection by q-value needs tests.")
        order = order[(tests.q[order] <= rule.fdr) | np.isin(order, by_request)]
    return order[: rule.top]


def rank_columns(selected: Array, path: CullingPath) -> Array:
    """Return the selected columns, then the others, both in the order of culling; constant columns are left out."""
    return np.concatenate([selected, path.order[~np.isin(path.order, selected)]]).astype(int)


def run_tests_quietly(table: Table, kind: OutcomeKind, settings: Settings) -> FeatureTests:
    """Run the tests without warnings, and with few pairs unless the p-values of others may matter."""
    n = table.X.shape[1]
    with collect_warnings():
        if PAIRS_PER_FEATURE * n < DEFAULT_PAIRS:
            tests = run_tests(table, kind, settings, Execution(), n_pairs=PAIRS_PER_FEATURE * n)
            if tests.pairs is None or not len(tests.pairs) or np.median(tests.pairs["p"]) > 1.0 / (2 * (n - 1)):
                return tests
        return run_tests(table, kind, settings, Execution())
