"""Analyses of small tables, fitted for real, for tests and pictures of reports."""

import warnings

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from randsel import InteractionScan, RandSel, __version__
from randsel.analysis import Accuracy, Analysis, Feature, Pair, Stability, cautions
from randsel.experiment import fingerprint

#: Features kept on every half, and the share of halves from which a feature is stable; the bound on false ones follows
#: from the two, as in `StabilitySelection`.
KEPT, THRESHOLD = 4, 0.6


def analysis_of(table, kind, *, data="table.csv", halves=10, folds=5, trees=50):
    """Select, test, repeat on halves, cross-validate: a small twin of what a command does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nothing stands out
        return _analysis_of(table, kind, data, halves, folds, trees)


def _analysis_of(table, kind, data, halves, folds, trees):
    selector = RandSel(target=kind).fit(table.X, table.y)
    scan = InteractionScan(target=kind).fit(table.X, table.y)
    frequencies = _frequencies(table, kind, halves)
    features = tuple(
        Feature(
            name=table.names[j],
            column=int(j),
            rank=place,
            contribution=float(selector.contributions_[j]),
            main=float(selector.main_scores_[j]),
            interaction=float(selector.interaction_scores_[j]),
            partner=table.names[scan.partner_[j]] if scan.partner_[j] >= 0 else None,
            p=float(scan.pvalues_[j]),
            q=float(scan.qvalues_[j]),
            stability=float(frequencies[j]),
            selected=bool(selector.support_[j]),
        )
        for place, j in enumerate(selector.order_, 1)
    )
    pairs = tuple(
        Pair(
            table.names[row["i"]],
            table.names[row["j"]],
            int(row["i"]),
            int(row["j"]),
            float(row["statistic"]),
            float(row["p"]),
            float(row["p_corrected"]),
        )
        for row in scan.pairs_
    )
    return Analysis(
        table=table,
        path=selector.path_,
        kind=kind,
        features=features,
        pairs=pairs,
        accuracy=_accuracy(table, kind, folds, trees),
        stability=Stability(halves, THRESHOLD, KEPT**2 / ((2 * THRESHOLD - 1) * len(features)), frequencies),
        nothing_stands_out=not selector.path_.stands_out,
        warnings=cautions(table, kind),
        settings={
            "command": f"randsel select {data} --target status --out results",
            "version": __version__,
            "seed": 0,
            "data": data,
            "data_hash": fingerprint(table),
            "parameters": {"drop": 0.25, "gamma": "median", "n_features_to_select": "auto"},
        },
        notes=("CSV, separated by commas.", "The first column was taken for the names of the samples."),
    )


def _frequencies(table, kind, halves):
    found = np.zeros(table.X.shape[1])
    for seed in range(halves):
        rows = np.random.default_rng(seed).permutation(len(table.X))[: len(table.X) // 2]
        found += RandSel(KEPT, target=kind).fit(table.X[rows], table.y[rows]).support_
    return found / max(halves, 1)


def _accuracy(table, kind, folds, trees):
    if kind == "classification":
        split, model = StratifiedKFold(folds, shuffle=True, random_state=0), RandomForestClassifier
        scoring, measure, chance = "balanced_accuracy", "balanced accuracy", 1.0 / len(np.unique(table.y))
    else:
        split, model = KFold(folds, shuffle=True, random_state=0), RandomForestRegressor
        scoring, measure, chance = "r2", "R²", 0.0
    model = model(n_estimators=trees, random_state=0)
    values, sizes = [], []
    for train, test in split.split(table.X, table.y):
        columns = RandSel(target=kind).fit(table.X[train], table.y[train]).get_support(indices=True)
        one_split = [(np.arange(len(train)), np.arange(len(train), len(table.X)))]
        rows = np.concatenate([train, test])
        values += list(
            cross_val_score(model, table.X[np.ix_(rows, columns)], table.y[rows], cv=one_split, scoring=scoring)
        )
        sizes.append(len(columns))
    everything = cross_val_score(model, table.X, table.y, cv=split, scoring=scoring)
    return Accuracy(measure, np.array(values), everything, chance, np.array(sizes))
