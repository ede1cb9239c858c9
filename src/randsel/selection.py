"""One table analysed: culling, tests, half-samples and nested cross-validation, each kept when it is finished."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import false_discovery_control
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from randsel._backend import Array, others
from randsel._parallel import generator, one_thread_if
from randsel._validation import check_strata, kind_of_target
from randsel.analysis import Accuracy, Analysis, Feature, Pair, Stability, cautions, label
from randsel.culling import CullingPath, Round, path_sizes
from randsel.interaction_scan import InteractionScan, main_effects
from randsel.kernels import bandwidth, squared_distances
from randsel.run_folder import Parts
from randsel.selector import RandSel
from randsel.tables import Table, imputer

#: Samples times features squared up to which all pairs are tested by default: about half a minute on one core.
PAIR_BUDGET = 3e10
#: What is kept of a pair.
PAIR_FIELDS = ("i", "j", "statistic", "p", "p_corrected", "step")
#: Share of half-samples from which a feature counts as stable.
THRESHOLD = 0.6
#: q-value of features, and corrected p-value of pairs, from which they count where no other is asked for.
LEVEL = 0.05
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


# ---------------------------------------------------------------- all of it


def analyse(
    table: Table,
    settings: Settings,
    *,
    about: Mapping[str, Any] | None = None,
    parts: Parts | None = None,
    progress: Progress | None = None,
    n_jobs: int | None = None,
) -> Analysis:
    """Select features from a table, and find out how far to trust the selection.

    Parameters
    ----------
    table : Table
        The data; missing values are allowed if its rule for them is "median".
    settings : Settings
        What to do.
    about : dict, default=None
        `settings` of the `Analysis`: what it takes to repeat it.
    parts : Parts, default=None
        Finished parts of an earlier run, and where to keep those of this one.
    progress : callable, default=None
        Called with what is being done, how much of it is done, and how much there is.
    n_jobs : int, default=None
        Halves and folds at a time. The answer does not depend on it.

    Returns
    -------
    Analysis
        All of it.
    """
    parts, show = parts or Parts(), progress or (lambda *_: None)
    kind = kind_of_target(table.y, settings.task)
    notes, remarks = list(table.notes), list[str]()
    if np.isnan(table.X).any():
        notes.append("Ranking and tests take the medians of all samples; half-samples and folds those of their own.")
    full = filled(table)
    unit = units(full)
    if len(unit.y) < len(table.y):
        notes.append(
            f"The target is the same within every group, so the {len(table.y)} samples are averaged to {len(unit.y)} "
            "groups for ranking, tests and half-samples; the accuracy is that of samples, their groups never split."
        )
    path = _kept_path(unit, kind, settings, parts, show)
    with remarked(remarks):
        tests = _kept_tests(unit, kind, settings, parts, show, n_jobs)
    notes += [*_about_pairs(unit, tests), *_about_strata(unit)]
    columns = chosen(path, tests, settings, table.X.shape[1])
    # where nothing is selected, as many as culling would: how far they change shows that they are noise
    wanted = len(columns) or len(path.rounds[path.best].features)
    stability = _stability(table, kind, settings, wanted, parts, show, n_jobs, notes)
    accuracy = _accuracy(table, kind, settings, parts, show, n_jobs, notes)
    found = cautions(full, kind, samples=None if table.ids is None else table.ids.tolist())
    features, pairs = _features(table, path, tests, columns, stability), _pairs(table, tests)
    return Analysis(
        table=replace(full, notes=()),
        path=path,
        kind=kind,
        features=features,
        pairs=pairs,
        accuracy=accuracy,
        stability=stability,
        nothing_stands_out=not path.stands_out,
        warnings=(
            *found,
            *remarks,
            *_between_strata(unit, path, tests),
            *_left_out(table, tests, columns),
            *_formulas(table.names),
        ),
        settings=dict(about or {}),
        notes=(*notes, *(f"{name} was damaged and was computed again." for name in parts.damaged)),
    )


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


# ---------------------------------------------------------------- culling and tests


def _selector(kind: str, settings: Settings, **more: Any) -> RandSel:
    return RandSel(target=kind, max_memory=settings.memory, device=settings.device, random_state=settings.seed, **more)


def culled(table: Table, kind: str, settings: Settings, on_round: Any = 0) -> CullingPath:
    """Cull on all rows of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nothing stands out, which is said elsewhere
        path: CullingPath = _selector(kind, settings, verbose=on_round).fit(table.X, table.y).path_
    return path


def _kept_path(table: Table, kind: str, settings: Settings, parts: Parts, show: Progress) -> CullingPath:
    def compute() -> dict[str, Any]:
        done = 0

        def on_round(r: Round) -> None:
            nonlocal done
            done += len(r.features)
            show("culling", done, max(sum(path_sizes(len(table.names), 0.25, 2)), done))

        return culled(table, kind, settings, on_round).to_arrays()

    return CullingPath.of_arrays(parts.get("path", compute))


def findings(table: Table, kind: str, settings: Settings, show: Progress, n_jobs: int | None = None) -> Findings:
    """Test all features, and all pairs if they are wanted and few enough; within groups and batches."""
    m, n = table.X.shape
    strata = _strata(table)
    nominal = np.zeros(n, dtype=bool)
    nominal[list(table.nominal)] = True
    if settings.pairs == "none" or (settings.pairs == "auto" and m * n**2 > PAIR_BUDGET) or n == 1:
        codes = None if strata is None else check_strata(table.y, None, batch=strata)
        p = main_effects(table.X, table.y, kind, nominal=nominal, strata=codes, n_jobs=n_jobs)
        none = np.full(n, -1)
        return Findings(p, np.asarray(false_discovery_control(p)), none, none[:0], None)
    scan = InteractionScan(
        target=kind,
        categorical_features=nominal,
        device=settings.device,
        n_jobs=n_jobs,
        verbose=lambda done, total: show("testing pairs", done, total),
    ).fit(table.X, table.y, batch=strata)
    return Findings(scan.pvalues_, scan.qvalues_, scan.partner_, scan.taken_, scan.pairs_)


def _strata(table: Table) -> Array | None:
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


def _kept_tests(
    table: Table, kind: str, settings: Settings, parts: Parts, show: Progress, n_jobs: int | None
) -> Findings:
    said: list[str] = []

    def compute() -> dict[str, Any]:
        with remarked(said):
            found = findings(table, kind, settings, show, n_jobs)
        arrays = {"p": found.p, "q": found.q, "partner": found.partner, "taken": found.taken}
        pairs = {} if found.pairs is None else {f"pairs_{name}": found.pairs[name] for name in PAIR_FIELDS}
        return {**arrays, **pairs, "remarks": np.array(said, dtype=str)}

    kept = parts.get("tests", compute)
    for remark in kept["remarks"].tolist():
        warnings.warn(remark, UserWarning, stacklevel=2)
    pairs = None
    if "pairs_i" in kept:
        pairs = np.zeros(len(kept["pairs_i"]), dtype=[(name, kept[f"pairs_{name}"].dtype) for name in PAIR_FIELDS])
        for name in PAIR_FIELDS:
            pairs[name] = kept[f"pairs_{name}"]
    return Findings(kept["p"], kept["q"], kept["partner"], kept["taken"], pairs)


def _about_pairs(table: Table, tests: Findings) -> list[str]:
    if tests.pairs is not None:
        return []
    sentence = (
        f"Pairs of features were not tested: p and q are of the {len(table.names)} features alone. --pairs all tests "
        "them."
    )
    return [sentence]


def _about_strata(table: Table) -> list[str]:
    named = [name for name, values in (("groups", table.groups), ("batches", table.batch)) if values is not None]
    where = " and ".join(named)
    return [f"p, q and pairs compare within {where}; contributions and accuracy do not."] if named else []


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


# ---------------------------------------------------------------- stability


def halves(y: Array, groups: Array | None, kind: str, seed: int, number: int) -> tuple[Array, Array]:
    """Return two halves that share no sample, and no group; of every class, if y has classes.

    Groups go to a half as a whole, and count for the class of their first sample.
    """
    of = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    _, first = np.unique(of, return_index=True)
    labels = np.unique(y[first], return_inverse=True)[1] if kind == "classification" else np.zeros(len(first), int)
    rng = generator(seed, 2, number)
    sides: tuple[list[int], list[int]] = [], []
    for k in range(int(labels.max()) + 1):
        members = rng.permutation(np.flatnonzero(labels == k))
        half = len(members) // 2
        sides[0].extend(members[:half].tolist())
        sides[1].extend(members[half : 2 * half].tolist())
    return np.flatnonzero(np.isin(of, sides[0])), np.flatnonzero(np.isin(of, sides[1]))


def _half(table: Table, kind: str, settings: Settings, wanted: int, number: int) -> dict[str, Any]:
    """Select as many features on a half of the samples as on all."""
    rows = halves(table.y, table.groups, kind, settings.seed, number // 2)[number % 2]
    try:
        part = units(filled(table.rows(rows)))
        return {"selected": culled(part, kind, settings).order[:wanted]}
    except ValueError:  # nothing varies on this half: nothing is selected
        return {"selected": np.zeros(0, dtype=int)}


def _stability(
    table: Table,
    kind: str,
    settings: Settings,
    wanted: int,
    parts: Parts,
    show: Progress,
    n_jobs: int | None,
    notes: list[str],
) -> Stability | None:
    if not settings.halves:
        return None
    sizes = [len(units(table.rows(rows)).y) for rows in halves(table.y, table.groups, kind, settings.seed, 0)]
    if min(sizes) < LEAST_HALF:
        notes.append(f"No half-samples: a half would have {min(sizes)} samples, fewer than {LEAST_HALF}.")
        return None
    count = settings.halves + settings.halves % 2
    tasks = [(table, kind, settings, wanted, number) for number in range(count)]
    found = _each(_half, tasks, "half", "half-samples", parts, show, n_jobs)
    frequencies = np.zeros(table.X.shape[1])
    for one in found:
        frequencies[one["selected"]] += 1.0 / count
    mean = float(np.mean([len(one["selected"]) for one in found]))
    vary = max(int((np.ptp(table.X, axis=0) != 0.0).sum()), 1)
    bound = mean**2 / ((2 * THRESHOLD - 1) * vary)
    # rounding of sums must not decide who is stable
    frequencies = np.round(frequencies * count) / count
    return Stability(count, THRESHOLD, bound if bound < vary else None, frequencies)


def _each(
    function: Callable[..., dict[str, Any]],
    tasks: list[tuple[Any, ...]],
    name: str,
    what: str,
    parts: Parts,
    show: Progress,
    n_jobs: int | None,
) -> list[dict[str, Array]]:
    """Call a function on every task that is not kept, some at a time, and keep what it returns."""
    found = {at: kept for at in range(len(tasks)) if (kept := parts.kept(f"{name}-{at:03d}")) is not None}
    show(what, len(found), len(tasks))
    run = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    pending = [at for at in range(len(tasks)) if at not in found]
    # one thread each: products then round alike, whatever the number of jobs
    with one_thread_if(True):
        for at, result in run(delayed(_numbered)(function, tasks[at], at) for at in pending):
            parts.keep(f"{name}-{at:03d}", result)
            found[at] = {key: np.asarray(value) for key, value in result.items()}
            show(what, len(found), len(tasks))
    return [found[at] for at in range(len(tasks))]


def _numbered(function: Callable[..., dict[str, Any]], task: tuple[Any, ...], at: int) -> tuple[int, dict[str, Any]]:
    return at, function(*task)


# ---------------------------------------------------------------- accuracy


def _accuracy(
    table: Table, kind: str, settings: Settings, parts: Parts, show: Progress, n_jobs: int | None, notes: list[str]
) -> Accuracy | None:
    """Cross-validate the whole selection; None where there are too few samples."""
    if not settings.folds:
        return None
    count = _number_of_folds(table, kind, settings.folds, notes)
    if count is None:
        return None
    tasks = [(table, kind, settings, rows) for rows in _splits(table, kind, count, settings.seed)]
    found = _each(_fold, tasks, "fold", "folds", parts, show, n_jobs)
    return Accuracy(
        measure="balanced accuracy" if kind == "classification" else "R²",
        selected=np.array([float(one["selected"]) for one in found]),
        everything=np.array([float(one["everything"]) for one in found]),
        chance=_chance(table.y, kind),
        sizes=np.array([int(one["size"]) for one in found]),
    )


def _number_of_folds(table: Table, kind: str, wanted: int, notes: list[str]) -> int | None:
    """Return as many folds as asked for, or as the smallest class allows, in samples or in groups."""
    unit = np.arange(len(table.y)) if table.groups is None else table.groups
    what = "samples" if table.groups is None else "groups"
    if kind == "regression":
        size, of = len(np.unique(unit)), f"the number of {what}"
    else:
        classes = np.unique(table.y)
        members = [len(np.unique(unit[table.y == c])) for c in classes]
        size, smallest = min(members), label(classes[int(np.argmin(members))])
        of = f"the number of {what} of class {smallest}"
    if size < 2:
        notes.append(f"No cross-validation: {of} is {size}, and every fold needs some to test and some to learn from.")
        return None
    if size < wanted:
        notes.append(f"{size} folds instead of {wanted}, {of}.")
    return min(size, wanted)


def _splits(table: Table, kind: str, count: int, seed: int) -> list[tuple[Array, Array]]:
    splitters = {
        ("classification", True): StratifiedKFold,
        ("classification", False): StratifiedGroupKFold,
        ("regression", True): KFold,
        ("regression", False): GroupKFold,
    }
    splitter = splitters[kind, table.groups is None](count, shuffle=True, random_state=seed)
    found = list(splitter.split(np.zeros(len(table.y)), table.y, table.groups))
    # groups may leave a fold without samples, or a training set without one of the classes
    return [(train, test) for train, test in found if len(test) and len(np.unique(table.y[train])) > 1]


def _fold(table: Table, kind: str, settings: Settings, rows: tuple[Array, Array]) -> dict[str, Any]:
    """Select on training samples by the same rules as on all, fit a model to those, test it on the others."""
    train, test = rows
    whole = filled(table, train)
    columns = _chosen_on(units(whole.rows(train)), kind, settings)
    every = np.flatnonzero(np.ptp(whole.X[train], axis=0) > 0.0)
    return {
        "selected": _score(whole, kind, train, test, columns),
        "everything": _score(whole, kind, train, test, every),
        "size": len(columns),
    }


def _chosen_on(table: Table, kind: str, settings: Settings) -> Array:
    """Select on some of the samples; without tests where they do not matter."""
    try:
        path = culled(table, kind, settings)
    except ValueError:  # nothing varies
        return np.zeros(0, dtype=int)
    tests = None
    if settings.fdr is not None or settings.top is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tests = findings(table, kind, settings, lambda *_: None)
    return chosen(path, tests, settings, table.X.shape[1])


def _score(table: Table, kind: str, train: Array, test: Array, columns: Array) -> float:
    """Test a Gaussian support vector machine; without features it can only guess."""
    if not len(columns):
        return _chance(table.y, kind)
    scaler = StandardScaler().fit(table.X[np.ix_(train, columns)])
    Z = scaler.transform(table.X[np.ix_(train, columns)])
    gamma = bandwidth("median", squared_distances(Z))
    held, y = scaler.transform(table.X[np.ix_(test, columns)]), table.y
    if kind == "classification":
        # weights, because every class counts as much as another in balanced accuracy
        predicted = SVC(C=1.0, gamma=gamma, class_weight="balanced").fit(Z, y[train]).predict(held)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of classes that this fold has not
            return float(balanced_accuracy_score(y[test], predicted))
    centre, spread = y[train].mean(), y[train].std() or 1.0
    model = SVR(C=1.0, gamma=gamma).fit(Z, (y[train] - centre) / spread)
    if len(test) < 2:
        return float("nan")
    return float(r2_score(y[test], model.predict(held) * spread + centre))


def _chance(y: Array, kind: str) -> float:
    return 1.0 / len(np.unique(y)) if kind == "classification" else 0.0


# ---------------------------------------------------------------- results


def _features(
    table: Table, path: CullingPath, tests: Findings, columns: Array, stability: Stability | None
) -> tuple[Feature, ...]:
    """All features: selected ones first, each in the order of culling, those that do not vary last."""
    n = len(table.names)
    rest = path.order[~np.isin(path.order, columns)]
    order = np.concatenate([columns, rest, others(path.order, n)]).astype(int)
    values = {name: path.last_values(name, n) for name in ("contributions", "main", "interaction")}
    frequencies = np.full(n, np.nan) if stability is None else stability.frequencies
    return tuple(
        Feature(
            name=table.names[j],
            column=j,
            rank=place,
            contribution=float(values["contributions"][j]),
            main=float(values["main"][j]),
            interaction=float(values["interaction"][j]),
            partner=table.names[tests.partner[j]] if tests.partner[j] >= 0 else None,
            p=float(tests.p[j]),
            q=float(tests.q[j]),
            stability=float(frequencies[j]),
            selected=place <= len(columns),
        )
        for place, j in enumerate(order.tolist(), 1)
    )


def _pairs(table: Table, tests: Findings) -> tuple[Pair, ...]:
    rows = [] if tests.pairs is None else tests.pairs.tolist()
    return tuple(
        Pair(table.names[i], table.names[j], i, j, statistic, p, corrected) for i, j, statistic, p, corrected, _ in rows
    )


def _between_strata(table: Table, path: CullingPath, tests: Findings) -> list[str]:
    """Warn if culling, which does not look at batches, finds what tests within them do not."""
    least = float(tests.q.min())
    if (table.batch is None and table.groups is None) or not path.stands_out or least <= LEVEL:
        return []
    sentence = (
        f"Culling stands out, but compared within batches or groups no feature does (smallest q {least:.2g}): what is "
        "ranked first may differ between batches only."
    )
    return [sentence]


def _left_out(table: Table, tests: Findings, columns: Array) -> list[str]:
    """Say so if a pair that stands out beside all others was not selected."""
    if tests.pairs is None:
        return []
    missed = [p for p in tests.pairs if p["step"] and p["p_corrected"] <= LEVEL and not {p["i"], p["j"]} & {*columns}]
    if not missed:
        return []
    names = " with ".join(table.names[missed[0][name]] for name in ("i", "j"))
    number = "A pair stands" if len(missed) == 1 else f"{len(missed)} pairs stand"
    sentence = (
        f"{number} out (corrected p at most {LEVEL:g}) of which neither feature is selected, the first being {names}: "
        "look at the pairs, raise --top, or select by tests alone (--fdr)."
    )
    return [sentence]


def _formulas(names: tuple[str, ...]) -> list[str]:
    """Warn of names that a spreadsheet would take for formulas; to change them would make them other names."""
    odd = [name for name in names if name.startswith(("=", "+", "-", "@"))]
    if not odd:
        return []
    sentence = (
        f"{len(odd)} names of features start with =, +, - or @ (the first is {odd[0]}), which a spreadsheet takes for "
        "formulas. The CSV files keep them as they are: import these columns as text."
    )
    return [sentence]
