"""Numbers, names and findings in words: what reports, tables on a terminal and captions say."""

from collections.abc import Sequence

import numpy as np

from randsel._utils.typing import Array
from randsel.analysis._model import Accuracy, Analysis, Stability, label

#: Corrected p-value of pairs, and q-value of features, from which they count.
LEVEL = 0.05
#: q-value from which a selected feature is one that no test finds.
DOUBTFUL = 0.5
#: Characters of a name within a sentence.
LONG_NAME = 50
#: Joiners that scripts and emoji need; all other characters that cannot be seen are written as numbers.
JOINERS = "\u200c\u200d"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# ---------------------------------------------------------------- numbers and names in words


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with so many significant digits: 0.0312, 1 234, 3.1·10⁻⁷; a dash for none."""
    if value is None or np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if -4 < int(exponent) < 6:
        text = f"{value:,.{max(digits - 1 - int(exponent), 0)}f}"
    else:
        text = f"{mantissa}·{power(int(exponent))}"
    # a narrow space that does not break, but not in numbers of four digits; and a true minus sign
    text = text.replace(",", "\u202f" if abs(value) >= 9999.5 else "")
    return text.replace("-", "−")


def p_value(value: float | None) -> str:
    """Write a p-value: 0.034, 3·10⁻⁵, < 10⁻³⁰⁰."""
    if value is None or np.isnan(value):
        return "–"
    if value < 1e-300:
        return "< 10⁻³⁰⁰"
    if value < 0.001:
        return number(value, 1) if f"{value:.0e}" != "1e-03" else "0.001"
    return number(min(value, 1.0), 2) if value < 0.995 else "1"


def fixed(value: float | None, digits: int = 1) -> str:
    """Write a number with so many digits after the point, for columns of a table."""
    # adding zero takes the sign from what is rounded to it
    return "–" if value is None or np.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def power(exponent: int) -> str:
    """Write a power of ten."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def share(value: float | None) -> str:
    """Write a share in per cent."""
    return "–" if value is None or np.isnan(value) else f"{100 * value:.0f}\u202f%"


def count(value: int) -> str:
    """Write a whole number, in groups of three digits from 10 000."""
    return f"{value:,}".replace(",", "\u202f" if value >= 10_000 else "")


def visible(name: str) -> str:
    """Write a name such that nothing in it is hidden: control characters and changes of direction become numbers."""
    return "".join(c if c.isprintable() or c in JOINERS else f"\\u{ord(c):04x}" for c in name)


def in_a_sentence(name: str) -> str:
    """Write a name, the end of a long one left out."""
    name = visible(name)
    return name if len(name) <= LONG_NAME else name[: LONG_NAME - 1] + "…"


def number_of(value: int, one: str, many: str) -> str:
    """Write a number and the word for as many."""
    return f"{count(value)} {one if value == 1 else many}"


def listed(words: Sequence[str]) -> str:
    """Join words by commas, the last by `and`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def plain(value: float) -> float | None:
    """Return a number that JSON knows."""
    return float(value) if np.isfinite(value) else None


def mean_and_spread(values: Array) -> str:
    """Mean ± standard deviation."""
    values = np.asarray(values, dtype=float)
    mean = f"{values.mean():.2f}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean}\u00a0±\u00a0{values.std(ddof=1):.2f}"


def range_of(sizes: Array) -> str:
    """Write the least and the most, or the one number."""
    low, high = int(np.min(sizes)), int(np.max(sizes))
    return count(low) if low == high else f"{count(low)} to {count(high)}"


# ---------------------------------------------------------------- summary in words


def summary(analysis: Analysis) -> list[str]:
    """Sentences, the most important first."""
    return [
        _found(analysis),
        *_unsure(analysis),
        _samples(analysis),
        *_together(analysis),
        *([] if analysis.stability is None else [_stable(analysis, analysis.stability)]),
        *([] if analysis.accuracy is None else [_accurate(analysis.accuracy)]),
        *_careful(analysis),
    ]


def _found(analysis: Analysis) -> str:
    total = count(len(analysis.features))
    chosen = [feature for feature in analysis.features if feature.selected]
    names = [in_a_sentence(feature.name) for feature in chosen[:3]]
    if analysis.nothing_stands_out and (tested := _tested(analysis)):
        return (
            "The selection by culling does not stand out from what noise would reach, but tests of the "
            f"{total} features and their pairs do find something: {listed(tested)}."
        )
    if analysis.nothing_stands_out:
        return (
            f"Nothing stands out: the {total} features tell no more about the target than culled noise would. The "
            "ranking below is an order of what there is, not a finding."
        )
    if not chosen:
        return f"Of {total} features, none was selected."
    if len(chosen) <= 3:
        return f"Of {total} features, {number_of(len(chosen), 'was', 'were')} selected: {listed(names)}."
    return f"Of {total} features, {count(len(chosen))} were selected; the first are {listed(names)}."


def _unsure(analysis: Analysis) -> list[str]:
    """Say so if all features together stand out but not those of the best round, or if tests find few of the chosen."""
    best = analysis.path.rounds[analysis.path.best]
    sentences = []
    if not analysis.nothing_stands_out and best.alignment - best.chance <= 3.0 * analysis.path.null_sd:
        sentences.append(
            "That some features tell about the target is surer than which: the best round of culling agrees with it no "
            "better than culled noise would."
        )
    chosen = [feature for feature in analysis.features if feature.selected]
    doubtful = sum(feature.q > DOUBTFUL for feature in chosen)
    if 2 * doubtful >= len(chosen) > 1:
        sentences.append(
            f"{doubtful} of the {len(chosen)} selected have a q-value above {DOUBTFUL:g}: no test finds them, alone or "
            "in a pair. Culling ends at two features at least, and may keep noise beside what is strong; --fdr 0.1 "
            "selects by the tests."
        )
    return sentences


def _tested(analysis: Analysis) -> list[str]:
    """Say what the tests find, which do not depend on culling."""
    features = sum(feature.q <= LEVEL for feature in analysis.features)
    pairs = sum(pair.corrected_p <= LEVEL for pair in analysis.pairs)
    return [
        *([f"{number_of(features, 'feature', 'features')} of a q-value of at most {LEVEL:g}"] if features else []),
        *([f"{number_of(pairs, 'pair', 'pairs')} of a corrected p of at most {LEVEL:g}"] if pairs else []),
    ]


def _samples(analysis: Analysis) -> str:
    y = analysis.table.y
    rows = number_of(len(y), "sample", "samples")
    if analysis.kind == "regression":
        low, middle, high = (number(float(value)) for value in np.quantile(y, [0.0, 0.5, 1.0]))
        return f"The table has {rows}; the target runs from {low} to {high}, half of it below {middle}."
    classes, counts = np.unique(y, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:5]
    parts = [f"{count(int(counts[at]))} {in_a_sentence(label(classes[at]))}" for at in largest]
    if len(classes) > len(largest):
        parts.append(f"{len(classes) - len(largest)} smaller classes")
    return f"The table has {rows}: {listed(parts)}."


def _together(analysis: Analysis) -> list[str]:
    """Say what is known about features that act together."""
    sentences = []
    chosen = [f for f in analysis.features if f.selected and np.isfinite(f.main) and np.isfinite(f.interaction)]
    more = sum(feature.interaction > feature.main for feature in chosen)
    if more and not analysis.nothing_stands_out:
        subject = f"{count(more)} of the {count(len(chosen))} selected" if more < len(chosen) else "The selected ones"
        verb = "acts" if more == 1 and more < len(chosen) else "act"
        sentences.append(f"{subject} {verb} more together with others than alone.")
    if analysis.pairs:
        best = analysis.pairs[0]
        strong = sum(pair.corrected_p <= LEVEL for pair in analysis.pairs)
        if not strong:
            p = p_value(best.corrected_p)
            sentences.append(f"No pair of features stands out after correction for their number (best p {p}).")
        else:
            sentences.append(
                f"The strongest pair is {in_a_sentence(best.first)} with {in_a_sentence(best.second)} (corrected p "
                f"{p_value(best.corrected_p)})"
                + (f", the first of {count(strong)} below {LEVEL:g}." if strong > 1 else ".")
            )
    return sentences


def _stable(analysis: Analysis, stability: Stability) -> str:
    chosen = [f.stability for f in analysis.features if f.selected and np.isfinite(f.stability)]
    halves = count(stability.n_halves)
    bound = ""
    if stability.expected_false is not None:
        bound = f"; of features that carry nothing, at most {stability.expected_false:.2g} are expected there"
    stable = number_of(stability.n_stable, "feature", "features")
    reached = f"{stable} in at least {share(stability.threshold)} of them{bound}."
    if not chosen:
        return f"Over {halves} half-samples there were {reached}"
    subject = "The selected features were" if len(chosen) > 1 else "The selected feature was"
    average = " on average" if len(chosen) > 1 else ""
    return f"{subject} found again in {share(float(np.mean(chosen)))} of {halves} half-samples{average}, {reached}"


def _accurate(accuracy: Accuracy) -> str:
    mean = float(np.mean(accuracy.selected))
    spread = float(np.std(accuracy.selected, ddof=1)) if len(accuracy.selected) > 1 else 0.0
    verdict = " Chance is within a standard deviation of that." if mean - spread <= accuracy.chance else ""
    folds, article = len(accuracy.selected), "an" if accuracy.measure.startswith("R") else "a"
    return (
        f"A model on features selected inside each fold reaches {article} {accuracy.measure} of "
        f"{mean_and_spread(accuracy.selected)} in nested cross-validation ({folds} folds), where chance is "
        f"{accuracy.chance:.2f} and a model on all features reaches {mean_and_spread(accuracy.everything)}.{verdict}"
    )


def _careful(analysis: Analysis) -> list[str]:
    if not analysis.warnings:
        return []
    return [f"{number_of(len(analysis.warnings), 'warning bears', 'warnings bear')} on how far to trust this."]
