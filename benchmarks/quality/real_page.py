"""Tables of docs/results/real.md from the finished cells of real.py."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain, product

import numpy as np
from scipy.stats import rankdata

from randsel._utils.text import as_markdown

CLASSES, NUMBERS = "classification", "regression"
SIZES = ("10", "20", "50", "100")
MODELS = ("rbf", "linear")
FOLDS = 5
ALL = "all features"
#: Methods that the targets of the default name.
REFERENCES = ("F-test", "linear SVM-RFE")
DASH = "–"


@dataclass
class Scores:
    """Scores of complete repetitions.

    Attributes
    ----------
    values
        (set, method, size, model) -> scores, one per repetition.
    kinds
        Set -> kind of its target.
    seconds
        (set, method) -> seconds of all fits.
    auto
        (set, method) -> numbers of features that the method chose.
    """

    values: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=dict)
    seconds: dict = field(default_factory=lambda: defaultdict(list))
    auto: dict = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def from_cells(cls, cells):
        """Scores of the repetitions of which all folds are finished."""
        scores, folds = cls(), defaultdict(list)
        for cell in cells:
            if "outcome" in cell:
                folds[cell["set"], cell["method"], cell["repetition"]].append(cell)
        for (set_name, method, _), group in folds.items():
            if len(group) == FOLDS:
                scores._add_repetition(set_name, method, group)
        return scores

    def _add_repetition(self, set_name, method, group):
        self.kinds[set_name] = group[0]["kind"]
        self.seconds[set_name, method] += [cell["seconds"] for cell in group]
        self.auto[set_name, method] += [cell["auto"] for cell in group if cell["auto"] is not None]
        for size in group[0]["outcome"]:
            by_model = [
                score_of([c["truth"] for c in group], [c["outcome"][size][m] for c in group], group[0]["kind"])
                for m in MODELS
            ]
            for model, score in zip((*MODELS, "both"), (*by_model, np.mean(by_model)), strict=True):
                self.values.setdefault((set_name, method, size, model), []).append(float(score))

    def mean(self, set_name, method, sizes=SIZES, model="both"):
        """Mean over repetitions and sizes; NaN if any is missing."""
        lists = [self.values.get((set_name, method, size, model)) for size in sizes]
        return np.nan if any(values is None for values in lists) else float(np.mean(lists))

    def sets(self, kind, names):
        """Return the sets that have scores and this kind of target."""
        return [name for name in names if self.kinds.get(name) == kind]

    def methods(self, set_names, sizes=SIZES):
        """Methods with scores for any of the sets, in the order of their first cell."""
        known = dict.fromkeys(method for _, method, _, _ in self.values)
        return [m for m in known if any(not np.isnan(self.mean(s, m, sizes)) for s in set_names)]


def score_of(truths, outcomes, kind):
    """Balanced accuracy, or correlation, of the out-of-fold predictions of a repetition."""
    if kind == CLASSES:
        of, correct = (np.sum(pad(counts), axis=0) for counts in (truths, outcomes))
        return float(np.mean(correct[of > 0] / of[of > 0]))
    truth, predicted = np.concatenate(truths), np.concatenate(outcomes)
    return float(np.corrcoef(truth, predicted)[0, 1]) if np.ptp(predicted) > 0.0 else 0.0


def pad(counts):
    longest = max(map(len, counts))
    return [np.pad(values, (0, longest - len(values))) for values in counts]


# ---------------------------------------------------------------- statistics


def table_of_means(scores, set_names, methods, sizes=SIZES):
    """Array (sets, methods) of means over repetitions and sizes, NaN where missing."""
    return np.array([[scores.mean(s, m, sizes) for m in methods] for s in set_names])


def mean_ranks(values):
    """Mean over sets of the rank among the methods that have a score on the set; 1 is the largest score."""
    ranks = np.full(values.shape, np.nan)
    for row, rank in zip(values, ranks, strict=True):
        known = ~np.isnan(row)
        rank[known] = rankdata(-row[known])
    return np.array([np.nan if np.isnan(column).all() else np.nanmean(column) for column in ranks.T])


def error_over_repetitions(scores, set_names, method):
    """Standard error of the mean over sets, from its values in the single repetitions."""
    lists = [
        scores.values[s, method, size, "both"]
        for s in set_names
        for size in SIZES
        if (s, method, size, "both") in scores.values
    ]
    count = min(map(len, lists), default=0)
    if count < 2:
        return np.nan
    by_repetition = np.mean([values[:count] for values in lists], axis=0)
    return float(by_repetition.std(ddof=1) / np.sqrt(count))


def error_over_sets(values):
    """Standard errors of the methods' means over sets, less the mean of all methods on each set."""
    centred = values - np.nanmean(values, axis=1, keepdims=True)
    counts = (~np.isnan(centred)).sum(axis=0)
    return np.array(
        [
            np.nanstd(column, ddof=1) / np.sqrt(count) if count > 1 else np.nan
            for column, count in zip(centred.T, counts, strict=True)
        ]
    )


def peer_ranks(scores, set_names, methods, is_ours, default):
    """Mean rank of each method when only one setting of RandSel takes part: itself, or the default."""
    others = [m for m in methods if not is_ours(m)]
    ranks = []
    for method in methods:
        ours = method if is_ours(method) else default if default in methods else None
        field_of = [m for m in methods if m == ours or m in others]
        ranks.append(mean_ranks(table_of_means(scores, set_names, field_of))[field_of.index(method)])
    return np.array(ranks)


# ---------------------------------------------------------------- tables


def number(value, form=".3f"):
    """A number without the zero before its point; a dash if it is missing."""
    if value is None or np.isnan(value):
        return DASH
    return f"{value:{form}}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:{form}}"


def main_table(scores, set_names, is_ours, default):
    """Rows of methods: means per size, standard errors, ranks and seconds."""
    methods = scores.methods(set_names)
    values = table_of_means(scores, set_names, methods)
    by_size = {size: table_of_means(scores, set_names, methods, (size,)) for size in SIZES}
    ranks = {"rank": mean_ranks(values), **{f"rank, {s}": mean_ranks(by_size[s]) for s in ("10", "20")}}
    ranks["rank, peers"] = peer_ranks(scores, set_names, methods, is_ours, default)
    set_errors = error_over_sets(values)
    rows = []
    for index in np.argsort(-np.nanmean(values, axis=0), kind="stable"):
        method = methods[index]
        known = [s for s, value in zip(set_names, values[:, index], strict=True) if not np.isnan(value)]
        row = {"method": f"**{method}**" if method == default else method, "sets": str(len(known))}
        row |= {size: number(np.nanmean(table[:, index])) for size, table in by_size.items()}
        row |= {
            "mean": number(np.nanmean(values[:, index])),
            "± sets": number(set_errors[index]),
            "± repetitions": number(error_over_repetitions(scores, known, method), ".4f"),
        }
        row |= {title: number(column[index], ".1f") for title, column in ranks.items()}
        row["s per fit"] = f"{np.median([t for s in known for t in scores.seconds[s, method]]):.2g}"
        rows.append(row)
    return rows


def difference_table(scores, groups, is_ours):
    """Differences of the settings of RandSel from the two references at 10 and 20 features, with errors over sets."""
    rows = []
    for title, names in groups.items():
        for method in filter(is_ours, scores.methods(names)):
            row = {"sets": title, "method": method}
            for reference, size in product(REFERENCES, ("10", "20")):
                values = [scores.mean(s, method, (size,)) - scores.mean(s, reference, (size,)) for s in names]
                row[f"less {reference}, {size}"] = with_error(values)
            rows.append(row)
    return rows


def with_error(differences):
    """Mean and standard error of the differences that are known."""
    known = np.array(differences)[~np.isnan(differences)]
    error = f" ± {number(known.std(ddof=1) / np.sqrt(len(known)))}" if len(known) > 1 else ""
    return number(known.mean(), "+.3f") + error if len(known) else DASH


def tried_table(scores, set_names, tried, default):
    """Other settings of the default on open sets: scores, and differences from the default, with errors over sets."""
    rows = []
    for method in [default, *tried]:
        means = {size: np.mean([scores.mean(s, method, (size,)) for s in set_names]) for size in SIZES}
        row = {"setting": f"**{method}**" if method == default else method}
        row |= {size: number(mean) for size, mean in means.items()} | {"mean": number(np.mean(list(means.values())))}
        for title, sizes in (("less the default, 10 and 20", ("10", "20")), ("less the default, mean", SIZES)):
            differences = [scores.mean(s, method, sizes) - scores.mean(s, default, sizes) for s in set_names]
            row[title] = with_error(differences) if method != default else DASH
        rows.append(row)
    return rows


def auto_table(scores, groups):
    """The number of features that methods choose, and the score with it, against all features."""
    rows = []
    for title, names in groups.items():
        for method in scores.methods(names, ("auto",)):
            pairs = [(s, scores.mean(s, method, ("auto",)), scores.mean(s, ALL, ("auto",))) for s in names]
            pairs = [(s, own, full) for s, own, full in pairs if not np.isnan(own + full)]
            if method == ALL or not pairs:
                continue
            medians = [np.median(scores.auto[s, method]) for s, _, _ in pairs]
            rows.append(
                {
                    "sets": f"{title} ({len(pairs)})",
                    "method": method,
                    "features, median of sets": f"{np.median(medians):.0f}",
                    "least to most": f"{min(medians):.0f} to {max(medians):.0f}",
                    "score": number(np.mean([own for _, own, _ in pairs])),
                    "all features": number(np.mean([full for _, _, full in pairs])),
                    "difference ± sets": with_error([own - full for _, own, full in pairs]),
                }
            )
    return rows


def auto_by_set_table(scores, set_names):
    """Score with the chosen number of features, and the median of that number, for each set."""
    rows = []
    for method in scores.methods(set_names, ("auto",)):
        row = {"method": method}
        for s in set_names:
            value = scores.mean(s, method, ("auto",))
            row[s] = DASH if np.isnan(value) else f"{number(value)} ({np.median(scores.auto[s, method]):.0f})"
        rows.append(row)
    return rows


def model_table(scores, set_names):
    """Means over sets of the two models, at each size and on all features."""
    rows = []
    for method in scores.methods(set_names):
        row = {"method": method}
        for model in MODELS:
            for size in SIZES:
                values = [scores.mean(s, method, (size,), model) for s in set_names]
                row[f"{model}, {size}"] = number(np.nanmean(values))
        rows.append(row)
    return rows


def set_table(scores, set_names):
    """Mean of the four sizes for each set; all features in the last row."""
    rows = [
        {"method": method, **{s: number(scores.mean(s, method)) for s in set_names}}
        for method in scores.methods(set_names)
    ]
    full = {s: number(scores.mean(s, ALL, ("auto",))) for s in set_names}
    return [*rows, {"method": ALL, **full}]


def recovery_table(cells):
    """Mean recall of the relevant features among as many first ones, for each problem."""
    recalls = defaultdict(list)
    for cell in cells:
        if "recall" in cell:
            recalls[cell["method"], cell["set"]].append(cell["recall"])
    problems = list(dict.fromkeys(problem for _, problem in recalls))
    methods = dict.fromkeys(method for method, _ in recalls)
    rows = []
    for method in methods:
        row = {"method": method}
        row |= {problem: recall_with_error(recalls.get((method, problem))) for problem in problems}
        rows.append(row)
    return rows


def recall_with_error(values):
    """Mean recall over data sets, with its standard error if there are several."""
    if not values:
        return DASH
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{error}"


def failure_table(cells, scores):
    """Sets on which a method was stopped: how many repetitions it had finished before, and why."""
    rows = {}
    for cell in cells:
        if "error" in cell:
            finished = scores.values.get((cell["set"], cell["method"], "10", "both"), [])
            timed_out = cell["error"] == "timed out"
            rows[cell["method"], cell["set"]] = {
                "method": cell["method"],
                "set": cell["set"],
                "finished repetitions": str(len(finished)),
                "reason": f"a fit of more than {cell['limit']:g} s" if timed_out else cell["error"],
            }
    return list(rows.values())


# ---------------------------------------------------------------- page

DIFFERENCES = "Differences from the F-test and linear SVM-RFE"
OWN_NUMBER = "The method's own number of features against all features"
REGRESSION = "Regression, mean of the four sizes"
RECOVERY = "Recovery of known relevant features"
TRIED = "Other settings of the default, open sets"
#: Columns that are in the CSV file only.
CSV_ONLY = ("± repetitions", "rank, 10", "rank, 20")
TITLES = {
    "all": "Classification, all sets",
    "open": "Classification, open sets: used to choose the default",
    "aside": "Classification, sets kept aside until the default was fixed",
}


def all_tables(cells, methods, halves, default):
    """Return the rows of all tables by their titles."""
    tried = [name for name, method in methods.items() if method.open_only]
    all_cells, cells = cells, [cell for cell in cells if cell["method"] not in tried]
    scores = Scores.from_cells(cells)

    def is_ours(method):
        return method.startswith("RandSel")

    groups = {half: scores.sets(CLASSES, names) for half, names in halves.items()}
    groups = {"all": list(chain(*groups.values())), **groups}
    groups = {title: names for title, names in groups.items() if names and scores.methods(names)}
    numbers = [name for names in halves.values() for name in scores.sets(NUMBERS, names) if scores.methods([name])]
    numeric = {name: [name] for name in numbers}
    tables = {
        f"{TITLES[key]} ({len(names)})": main_table(scores, names, is_ours, default) for key, names in groups.items()
    }
    tables[DIFFERENCES] = difference_table(scores, groups, is_ours)
    for name in numbers:
        half = next(half for half in halves if name in halves[half])
        tables[f"Regression, {name} ({half})"] = main_table(scores, [name], is_ours, default)
    if numbers:
        tables[REGRESSION] = set_table(scores, numbers)
    tables[OWN_NUMBER] = auto_table(scores, groups | numeric)
    by_group = {title: names for title, names in groups.items() if title != "all"}
    for title, names in (by_group | ({"regression": numbers} if numbers else {})).items():
        tables[f"Score and median number of features per set, {title}"] = auto_by_set_table(scores, names)
    if groups:
        tables["The two models"] = model_table(scores, groups["all"])
    for title, names in by_group.items():
        tables[f"Each set, mean of the four sizes, {title}"] = set_table(scores, names)
    of_tried = Scores.from_cells(all_cells)
    tried = [name for name in tried if name in of_tried.methods(groups.get("open", ()))]
    if tried:
        tables[TRIED] = tried_table(of_tried, groups["open"], tried, default)
    tables[RECOVERY] = recovery_table(cells)
    tables["Left out"] = failure_table(all_cells, of_tried)
    tables["Settings"] = [{"method": name, "as it was run": method.settings} for name, method in methods.items()]
    return {title: rows for title, rows in tables.items() if rows}


def write_page(cells, methods, halves, default):
    """Return the body of the page as Markdown, the tables of its CSV file, and the number of data sets."""
    tables, scores = all_tables(cells, methods, halves, default), Scores.from_cells(cells)
    repetitions = sorted({len(values) for values in scores.values.values()}) or [0]
    counts = [sum(name in scores.kinds for name in names) for names in halves.values()]
    n_sets = (
        f"{len(scores.kinds)} ({counts[0]} open, {counts[1]} kept aside), {FOLDS} folds, repetitions: "
        + " to ".join(dict.fromkeys([str(repetitions[0]), str(repetitions[-1])]))
    )
    return summarise(tables, default), tables, n_sets


def summarise(tables, default):
    """Return the opening and the tables that are shown; the others are in the CSV file only."""
    shown = {
        DIFFERENCES: lambda row: row["method"] == default,
        OWN_NUMBER: lambda row: not row["sets"].startswith(("open", "aside")),
    }
    hidden = (TITLES["open"], "Regression, riboflavin", "Regression, wheat", "Score and", "The two", "Each set")
    notes = {RECOVERY: RECOVERY_NOTE, TRIED: TRIED_NOTE}
    lines = [OPENING.format(default=default)]
    for title, rows in tables.items():
        rows_shown = [
            {column: text for column, text in row.items() if column not in CSV_ONLY}
            for row in rows
            if shown.get(title, lambda _: True)(row)
        ]
        if rows_shown and not title.startswith(hidden):
            lines += [f"## {title}", *([notes[title]] if title in notes else []), as_markdown(rows_shown)]
    return "\n\n".join(lines)


RECOVERY_NOTE = (
    "Share of the k relevant features among the first k: mean ± standard error over simulated data sets; madelon, "
    "gametes and friedman are one file each. The columns are in random order."
)


TRIED_NOTE = (
    "Every row changes one thing. A setting would be a better default if it exceeded this one by more than two "
    "standard errors, which are over sets. Ten subsamples take ten times as long as one fit."
)


OPENING = """\
[real.csv](real.csv) has all tables: each set, both models, open sets, regression by size. `RandSel()` is **{default}**
in this version.

**How.** Features are selected on the training folds only. Folds are stratified (numbers: by ten neighbouring values)
and shuffled by the repetition; donors stay together where the set has `groups`. An RBF and a linear support vector
machine (C = 1, `gamma="scale"`, columns standardised on the training folds) are trained on the first 10, 20, 50 and 100
features, and on the number that the method chooses. The score is the balanced accuracy of all out-of-fold predictions
of a repetition; for numbers, their Pearson correlation with y. Unless a table says otherwise, it is the mean of both
models.

**Halves.** The sets were split before any of these results was seen. Open sets choose the default; the others were kept
aside until it was fixed. Eight of the open sets had been used when the residual criterion was designed: colon, tox_171,
tb_gse19491_ltbi, prostate_ge, allaml, tb_gambia_ord, tb_weiner2012, lung_gordon. In tb_gse19491_ltbi the classes are
confounded with the sub-study.

**Columns.**

- *sets*: on how many the method finished. A method that needs more than a minute for a fit is left out on that set.
- *mean*: over sets and the four sizes.
- *± sets*: standard error over sets of the method's mean less the mean of all methods on the same set.
- *± repetitions* (in the file): standard error over repetitions of the mean over sets. It says what other folds would
  change, not what other sets would.
- *rank*: mean over sets of the rank among all methods of the table, by the mean of the four sizes (in the file, at 10
  and at 20 features as well); 1 is best.
- *rank, peers*: the same when only one setting of RandSel takes part, that of the row or else the default.
- *s per fit*: processor seconds on one core, median over sets and folds."""
