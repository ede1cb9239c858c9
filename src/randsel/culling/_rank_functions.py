"""With `kernel="rank"`, culling sees several rank functions of every feature: their path becomes one of features."""

from dataclasses import replace

import numpy as np

from randsel._utils.typing import Array
from randsel.culling._path import CullingPath, RecordedRounds, Round


def merge_functions(path: CullingPath, owner: Array, min_features: int) -> CullingPath:
    """Return the path of features from a path of rank functions, where function `i` belongs to feature `owner[i]`.

    A feature has the best scores of its functions, and is dropped with the last of them.
    """
    rounds: list[Round] = []
    for r, next_features in zip(path.rounds, [*(later.features for later in path.rounds[1:]), None], strict=True):
        features = np.unique(owner[r.features])
        is_last = next_features is None or len(np.unique(owner[next_features])) < min(min_features, len(features))
        dropped = np.array([], dtype=int) if is_last else np.setdiff1d(features, owner[next_features])
        if is_last or len(dropped):
            rounds.append(_merge_round(r, owner, features, dropped, rounds))
        if is_last:
            break
    # The position of a feature is that of its first function.
    order = owner[path.order]
    order = order[np.sort(np.unique(order, return_index=True)[1])]
    return replace(path, recorded=RecordedRounds(rounds), recorded_order=order, columns=None)


def _merge_round(r: Round, owner: Array, features: Array, dropped: Array, earlier: list[Round]) -> Round:
    """Return a round of `features` that drops `dropped`, from a round of functions."""
    index = np.searchsorted(features, owner[r.features])

    def best(values: Array) -> Array:
        maxima = np.full(len(features), -np.inf)
        np.maximum.at(maxima, index, values)
        return maxima

    # A feature is dropped with its last function: keep the last occurrence of each.
    last_first = owner[r.dropped][::-1]
    last_first = last_first[np.sort(np.unique(last_first, return_index=True)[1])]
    already_fixed = np.concatenate([np.array([], dtype=int), *(past.fixed for past in earlier)])
    return replace(
        r,
        features=features,
        contributions=np.bincount(index, weights=r.contributions),
        main=best(r.main),
        interaction=best(r.interaction),
        scores=best(r.scores),
        dropped=last_first[np.isin(last_first, dropped)][::-1],
        fixed=np.setdiff1d(owner[r.fixed], already_fixed),
    )
