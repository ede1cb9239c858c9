"""Summary of an analysis in sentences, for the top of the report and for the terminal."""

from collections.abc import Iterator

import numpy as np

from randsel._utils import text
from randsel.analysis import Accuracy, Analysis, Stability
from randsel.interactions import LEVEL

DOUBTFUL = 0.5  # a selected feature with a q-value above this is called doubtful
LONG_NAME = 50  # maximum number of characters of a name in a sentence
NAMED_CLASSES = 5  # maximum number of classes that are named with their counts


def summarise(analysis: Analysis) -> list[str]:
    """Return the results as sentences, the most important first."""
    sentences = [
        _describe_selection(analysis),
        *_describe_doubts(analysis),
        _describe_samples(analysis),
        *_describe_interactions(analysis),
    ]
    if analysis.stability is not None:
        sentences.append(_describe_stability(analysis, analysis.stability))
    if analysis.accuracy is not None:
        sentences.append(_describe_accuracy(analysis.accuracy))
    if analysis.warnings:
        number = _write_count(len(analysis.warnings), "warning bears", "warnings bear")
        sentences.append(f"{number} on how far to trust this.")
    return sentences


def _describe_selection(analysis: Analysis) -> str:
    total = text.format_count(len(analysis.features))
    selected = [feature for feature in analysis.features if feature.selected]
    if analysis.nothing_stands_out and (significant := list(_describe_tests(analysis))):
        return (
            "The selection by culling does not stand out from what noise would reach, but tests of the "
            f"{total} features and their pairs do find something: {text.join_words(significant)}."
        )
    if analysis.nothing_stands_out:
        return (
            f"Nothing stands out: the {total} features tell no more about the target than culled noise would. The "
            "ranking below is an order of what there is, not a finding."
        )
    if not selected:
        return f"Of {total} features, none was selected."
    names = text.join_words([_write_name(feature.name) for feature in selected[:3]])
    if len(selected) <= 3:
        return f"Of {total} features, {_write_count(len(selected), 'was', 'were')} selected: {names}."
    return f"Of {total} features, {text.format_count(len(selected))} were selected; the first are {names}."


def _describe_tests(analysis: Analysis) -> Iterator[str]:
    """Describe how many features and pairs are significant by the tests, which do not depend on culling."""
    if n_features := sum(feature.q <= LEVEL for feature in analysis.features):
        yield f"{_write_count(n_features, 'feature', 'features')} of a q-value of at most {LEVEL:g}"
    if n_pairs := sum(pair.corrected_p <= LEVEL for pair in analysis.pairs):
        yield f"{_write_count(n_pairs, 'pair', 'pairs')} of a corrected p of at most {LEVEL:g}"


def _describe_doubts(analysis: Analysis) -> Iterator[str]:
    """Warn if the best round does not stand out from noise, or if most selected features are not significant."""
    best = analysis.path.rounds[analysis.path.best]
    if not analysis.nothing_stands_out and best.alignment - best.chance <= 3.0 * analysis.path.null_sd:
        yield (
            "That some features tell about the target is surer than which: the best round of culling agrees with it no "
            "better than culled noise would."
        )
    selected = [feature for feature in analysis.features if feature.selected]
    n_doubtful = sum(feature.q > DOUBTFUL for feature in selected)
    if 2 * n_doubtful >= len(selected) > 1:
        yield (
            f"{n_doubtful} of the {len(selected)} selected have a q-value above {DOUBTFUL:g}: no test finds them, "
            "alone or in a pair. Culling ends at two features at least, and may keep noise beside what is strong; "
            "--fdr 0.1 selects by the tests."
        )


def _describe_samples(analysis: Analysis) -> str:
    y = analysis.table.y
    samples = _write_count(len(y), "sample", "samples")
    if not analysis.outcome.has_classes:
        low, middle, high = (text.format_number(float(value)) for value in np.quantile(y, [0.0, 0.5, 1.0]))
        return f"The table has {samples}; the target runs from {low} to {high}, half of it below {middle}."
    classes, counts = np.unique(y, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:NAMED_CLASSES]
    phrases = [f"{text.format_count(int(counts[k]))} {_write_name(text.format_label(classes[k]))}" for k in largest]
    if len(classes) > len(largest):
        phrases.append(f"{len(classes) - len(largest)} smaller classes")
    return f"The table has {samples}: {text.join_words(phrases)}."


def _describe_interactions(analysis: Analysis) -> Iterator[str]:
    scored = [f for f in analysis.features if f.selected and np.isfinite(f.main) and np.isfinite(f.interaction)]
    n_interacting = sum(feature.interaction > feature.main for feature in scored)
    if n_interacting and not analysis.nothing_stands_out:
        some = n_interacting < len(scored)
        subject = f"{text.format_count(n_interacting)} of the {text.format_count(len(scored))} selected"
        verb = "acts" if some and n_interacting == 1 else "act"
        yield f"{subject if some else 'The selected ones'} {verb} more together with others than alone."
    if analysis.pairs:
        best = analysis.pairs[0]
        p = text.format_p_value(best.corrected_p)
        n_significant = sum(pair.corrected_p <= LEVEL for pair in analysis.pairs)
        if not n_significant:
            yield f"No pair of features stands out after correction for their number (best p {p})."
        else:
            others = f", the first of {text.format_count(n_significant)} below {LEVEL:g}" if n_significant > 1 else ""
            first, second = _write_name(best.first), _write_name(best.second)
            yield f"The strongest pair is {first} with {second} (corrected p {p}){others}."


def _describe_stability(analysis: Analysis, stability: Stability) -> str:
    frequencies = [f.stability for f in analysis.features if f.selected and np.isfinite(f.stability)]
    n_halves = text.format_count(stability.n_halves)
    bound = ""
    if stability.expected_false is not None:
        bound = f"; of features that carry nothing, at most {stability.expected_false:.2g} are expected there"
    stable = _write_count(stability.n_stable, "feature", "features")
    stable = f"{stable} in at least {text.format_percent(stability.threshold)} of them{bound}."
    if not frequencies:
        return f"Over {n_halves} half-samples there were {stable}"
    subject = "The selected features were" if len(frequencies) > 1 else "The selected feature was"
    average = " on average" if len(frequencies) > 1 else ""
    mean = text.format_percent(float(np.mean(frequencies)))
    return f"{subject} found again in {mean} of {n_halves} half-samples{average}, {stable}"


def _describe_accuracy(accuracy: Accuracy) -> str:
    mean = float(np.mean(accuracy.selected))
    sd = float(np.std(accuracy.selected, ddof=1)) if len(accuracy.selected) > 1 else 0.0
    verdict = " Chance is within a standard deviation of that." if mean - sd <= accuracy.chance else ""
    selected, everything = text.format_mean_and_sd(accuracy.selected), text.format_mean_and_sd(accuracy.everything)
    n_folds, article = len(accuracy.selected), "an" if accuracy.measure.startswith("R") else "a"
    return (
        f"A model on features selected inside each fold reaches {article} {accuracy.measure} of {selected} in nested "
        f"cross-validation ({n_folds} folds), where chance is {accuracy.chance:.2f} and a model on all features "
        f"reaches {everything}.{verdict}"
    )


def _write_name(name: str) -> str:
    return text.shorten(text.make_visible(name), LONG_NAME)


def _write_count(count: int, singular: str, plural: str) -> str:
    return f"{text.format_count(count)} {text.pluralise(count, singular, plural)}"
