"""The report of `randsel interactions`: results of the tests of features, pairs and triples."""

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from randsel._utils import text
from randsel._utils.typing import Array
from randsel.analysis import NO_PAIRS_LEFT, FeatureTests
from randsel.interactions import LEVEL
from randsel.plots import interaction_heatmap, pair_panel
from randsel.report._html import TABLE, cite, describe_target, lay_out
from randsel.report._svg import draw_panel
from randsel.selectors import InteractionScan
from randsel.tables import Table
from randsel.targets import KINDS

PAIRS, DRAWN_PAIRS = 20, 6  # maximum number of pairs listed and drawn


def interaction_contents(
    scan: InteractionScan,
    table: Table,
    *,
    kind: str,
    target: str = "",
    data: str = "",
    command: str = "",
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return everything that the report of a fitted scan shows, as one dictionary.

    Parameters
    ----------
    scan, table : InteractionScan and Table
        The fitted scan, and the table that it was fitted on.
    kind, target, data, command : str
        Kind of the target, its name, the name of the file, and the command line.
    warnings, notes : sequences of str
        Reasons to doubt the result, and how the file was read.

    Returns
    -------
    dict
        Strings, numbers, None, lists and dictionaries; under the key "figure", pictures as SVG.

    Examples
    --------
    >>> from randsel import InteractionScan, datasets, report
    >>> from randsel.tables import Table
    >>> X, y, relevant = datasets.make_xor(200, 20, random_state=0)
    >>> table = Table(X, y, tuple(f"g{j}" for j in range(20)))
    >>> content = report.interaction_contents(InteractionScan().fit(X, y), table, kind="classification")
    >>> content["verdict"][0]["level"]
    'good'
    """
    names = [text.make_visible(name) for name in table.names]
    significant = significant_pairs(scan)
    facts = {"samples": len(table.X), "features": len(names), "selected": int(scan.n_features_)}
    facts["pairs that hold"] = len(significant)
    return {
        "title": f"Interactions: {text.make_visible(data)}" if data else "Interactions",
        "kind": kind,
        "verdict": _judge(scan, names, significant, warnings),
        "facts": [{"name": name, "value": text.format_count(value)} for name, value in facts.items()],
        "warnings": [text.make_visible(warning) for warning in warnings],
        "notes": [text.make_visible(note) for note in notes],
        "target": describe_target(table.y, KINDS[kind], target),
        "pairs": {
            "total": len(scan.pairs_),
            "tested": math.comb(len(names), 2),
            "level": LEVEL,
            "significant": len(significant),
            "rows": [_describe_set(row, names) for row in scan.pairs_[:PAIRS]],
            "drawn": [_draw_pair(table, kind, row, names) for row in significant[:DRAWN_PAIRS]],
            "heatmap": {"figures": _draw_heatmap(scan, names)} if len(significant) else None,
        },
        "triples": [_describe_set(row, names) for row in getattr(scan, "triples_", ())[:PAIRS]],
        "covariate_pairs": [
            {"covariate": text.make_visible(str(row["covariate"])), "feature": names[row["j"]]}
            | {"p": float(row["p"]), "corrected_p": float(row["p_corrected"])}
            for row in (scan.covariate_pairs_[:PAIRS] if scan.with_covariates else ())
        ],
        "features": {"total": len(names), "rows": _describe_features(scan, names)},
        "repeat": {
            "command": text.make_visible(command),
            "seed": None,
            "version": version("randsel"),
            "data": text.make_visible(data),
            "data_hash": table.fingerprint(),
        },
        "cite": cite(version("randsel")),
    }


def render_interactions(content: Mapping[str, Any]) -> str:
    """Lay out the contents of the report of a scan as one HTML file.

    Parameters
    ----------
    content : dict
        As `interaction_contents` returns it.

    Returns
    -------
    str
        HTML that loads nothing from the network.

    Examples
    --------
    >>> from pathlib import Path
    >>> content = report.interaction_contents(scan, table, kind="classification")  # doctest: +SKIP
    >>> Path("report.html").write_text(report.render_interactions(content), "utf-8")  # doctest: +SKIP
    """
    return lay_out("interactions.html.j2", content)


def significant_pairs(scan: InteractionScan) -> Array:
    """Return the rows of `pairs_` that hold after correction for the number of all pairs; none with `order=1`."""
    return scan.pairs_[scan.pairs_["p_corrected"] <= LEVEL]


def say_whether_pairs_hold(scan: InteractionScan, names: Sequence[str]) -> str:
    """Return the sentence that says whether any pair is significant after correction for all pairs."""
    tested = text.format_count(math.comb(len(names), 2))
    if not len(scan.pairs_):
        return NO_PAIRS_LEFT if scan.order > 1 and len(names) > 1 else "Pairs were not tested."
    best = scan.pairs_[scan.pairs_["p_corrected"].argmin()]
    p = text.format_p_value(float(best["p_corrected"]))
    n_significant = len(significant_pairs(scan))
    if not n_significant:
        return f"No pair holds after correction for all {tested} pairs (best corrected p {p})."
    first, second = (text.shorten(text.make_visible(names[best[k]]), 50) for k in "ij")
    counted = "One pair holds" if n_significant == 1 else f"{text.format_count(n_significant)} pairs hold"
    also = ", the strongest of them" if n_significant > 1 else ""
    return f"{counted} after correction for all {tested} pairs: {first} with {second}{also} (corrected p {p})."


def _judge(
    scan: InteractionScan, names: Sequence[str], significant: Array, warnings: Sequence[str]
) -> list[dict[str, str]]:
    """Return the verdict: do pairs hold, are features found, and what to beware of."""
    n_main = int((scan.qvalues_ <= LEVEL).sum())
    related = (
        f"{text.format_count(n_main)} of {text.format_count(len(names))} features have a q-value of at most {LEVEL:g}"
    )
    beware = (
        f"{len(warnings)} {text.pluralise(len(warnings), 'warning', 'warnings')}, listed below."
        if warnings
        else ("No warning was raised. Features of a pair may be proxies of others that act on the target.")
    )
    how = ", alone or in their best pair." if len(scan.pairs_) else ", each tested alone."
    lines = [
        ("Does any pair hold?", "good" if len(significant) else "poor", say_whether_pairs_hold(scan, names)),
        ("Is any feature related?", "good" if n_main else "poor", f"{related}{how}"),
        ("What to beware of?", "fair" if warnings else "good", beware),
    ]
    if not len(scan.pairs_):
        lines[0] = (lines[0][0], "unknown", lines[0][2])
    return [{"question": question, "level": level, "text": answer} for question, level, answer in lines]


def _describe_set(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return a pair or triple: names, statistic, p-values, and the forward step that selected it."""
    members = {"first": names[row["i"]], "second": names[row["j"]]}
    members |= {"third": names[row["k"]]} if "k" in row.dtype.names else {}
    numbers = {"statistic": row["statistic"], "p": row["p"], "corrected_p": row["p_corrected"]}
    return {**members, **{name: float(value) for name, value in numbers.items()}, "step": int(row["step"]) or None}


def _draw_pair(table: Table, kind: str, row: Any, names: Sequence[str]) -> dict[str, Any]:
    pair, outcome = _describe_set(row, names), KINDS[kind]
    labels = (pair["first"], pair["second"])
    about = f"{labels[0]} and {labels[1]}, coloured by target"
    # survival is shown by its martingale residuals: more or fewer events than expected
    values = table.X[:, row["i"]], table.X[:, row["j"]], outcome.to_numbers(table.y)[0]
    options: dict[str, Any] = {"labels": labels, "categories": outcome.has_classes, "size": (3.0, 2.7)}
    return {**pair, "figure": draw_panel(pair_panel, *values, about=about, **options)}


def _draw_heatmap(scan: InteractionScan, names: Sequence[str]) -> dict[str, str]:
    """Draw the heat map for wide and for narrow windows, where the same letters take more of the width."""
    side, n_rows = 1.4 + 0.14 * len(scan.top_), len(scan.top_)
    sizes = {"wide": (side + 1.0, side), "narrow": (3.7, 1.2 + 0.11 * n_rows)}
    about = "p-values of all pairs of the first features"
    return {
        width: draw_panel(interaction_heatmap, scan, names=names, about=about, size=size)
        for width, size in sizes.items()
    }


def _describe_features(scan: InteractionScan, names: Sequence[str]) -> list[dict[str, Any]]:
    partner = FeatureTests.from_scan(scan).partner
    return [
        {
            "rank": rank,
            "name": names[j],
            "selected": bool(scan.support_[j]),
            "p": float(scan.pvalues_[j]),
            "q": float(scan.qvalues_[j]),
            "main_p": float(scan.main_pvalues_[j]),
            "partner": names[partner[j]] if partner[j] >= 0 else None,
        }
        for rank, j in enumerate(scan.order_[:TABLE].tolist(), start=1)
    ]
