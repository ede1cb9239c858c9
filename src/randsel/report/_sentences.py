"""Summary of an analysis in sentences, for the top of the report and for the terminal."""

from collections.abc import Iterator

import numpy as np

from randsel._utils import text
from randsel.analysis import Accuracy, Analysis, Rule, Stability
from randsel.culling import N_PERMUTATIONS, NOISE_LEVEL
from randsel.interactions import LEVEL
from randsel.targets import SURVIVAL, Comparison, compare_groups

#: What a q-value does not say.
MEANING_OF_Q = (
    "q controls false discoveries of association: a feature with a low q may only be a proxy of one that acts on the "
    "target."
)
#: What tests compare, by how the target varies within groups.
COMPARISONS: dict[Comparison, str] = {
    "between groups": "The target is the same within every group: tests compare groups, whose samples are averaged.",
    "within groups": "The target varies within every group: tests compare samples of the same group.",
    "mixed": "The target varies within some groups: tests take the samples of a group as dependent on each other.",
}
DOUBTFUL = 0.5  # a selected feature with a q-value above this is called doubtful
LONG_NAME = 50  # maximum number of characters of a name in a sentence
NAMED_CLASSES = 5  # maximum number of classes that are named with their counts
NAMED_STEPS = 10  # maximum number of features of forward steps that are named


def summarise(analysis: Analysis) -> list[str]:
    """Return the results as sentences; the first says whether the features as a whole stand out from noise."""
    sentences = [
        _describe_whole(analysis),
        *_describe_selection(analysis),
        describe_rule(analysis.rule),
        *_describe_kept(analysis),
        *_describe_doubts(analysis),
        _describe_samples(analysis),
        *_describe_groups(analysis),
        *_describe_steps(analysis),
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


def _describe_whole(analysis: Analysis) -> str:
    """Say whether the features as a whole stand out from noise, with the p-value of the permutation test."""
    pvalue = analysis.path.noise_pvalue
    p = f"p = {text.format_p_value(pvalue)}"
    tested = f"{p} by {N_PERMUTATIONS} permutations of the target"
    if analysis.nothing_stands_out and not analysis.has_findings:
        return (
            "Nothing stands out: the features as a whole are related to the target no more closely than noise would be "
            f"({tested}). The ranking below is not a finding."
        )
    if analysis.nothing_stands_out:
        return f"The features as a whole do not stand out from noise: {tested}."
    if pvalue is None or pvalue > NOISE_LEVEL:
        return (
            "The features as a whole are related to the target: together they align with it better than culled noise "
            f"would, although one by one they do not stand out ({tested})."
        )
    if round(pvalue * (N_PERMUTATIONS + 1)) == 1:
        tested = f"{p}, the smallest that {N_PERMUTATIONS} permutations allow"
    return f"The features as a whole are related to the target: {tested}."


def _describe_selection(analysis: Analysis) -> Iterator[str]:
    if analysis.rule.name in ("nothing", "top") and not analysis.has_findings:
        return
    total = text.format_count(len(analysis.features))
    selected = [feature for feature in analysis.features if feature.selected]
    names = text.join_words([_write_name(feature.name) for feature in selected[:3]])
    if not selected:
        yield f"Of {total} features, none was selected."
    elif len(selected) <= 3:
        yield f"Of {total} features, {_write_count(len(selected), 'was', 'were')} selected: {names}."
    else:
        yield f"Of {total} features, {text.format_count(len(selected))} were selected; the first are {names}."


def describe_rule(rule: Rule) -> str:
    """Return the sentence that says which features are called selected in a run."""
    if rule.name == "path":
        return (
            "Selected are the fewest features whose prediction error is within one standard error of the smallest "
            "along the culling path."
        )
    if rule.name == "tests":
        return (
            f"Selected are the features with a q-value of at most {rule.fdr:g}: culling does not stand out from noise, "
            "but these tests do."
        )
    if rule.name == "top":
        number = "feature" if rule.top == 1 else f"{rule.top} features"
        return f"Selected is what --top asks for, the first {number} of the ranking, whether or not they stand out."
    if rule.name == "fdr":
        number = "the features" if rule.top is None else f"the first features, at most {rule.top},"
        return f"Selected are {number} with a q-value of at most {rule.fdr:g} (--fdr)."
    nothing = "Nothing is selected by the data" if rule.always_kept else "Nothing is selected"
    return f"{nothing}: culling does not stand out from noise, and no q-value is at most {LEVEL:g}."


def _describe_kept(analysis: Analysis) -> Iterator[str]:
    """Name the features that were selected because the user asked for them."""
    names = [_write_name(analysis.table.names[column]) for column in analysis.rule.always_kept]
    if names:
        yield (
            f"Kept by request (--keep): {text.join_words(names)}. The other features were ranked by what they add to "
            f"{'this one' if len(names) == 1 else 'these'}."
        )


def _describe_doubts(analysis: Analysis) -> Iterator[str]:
    """Warn if most selected features are not significant."""
    always_kept = analysis.rule.always_kept
    selected = [feature for feature in analysis.features if feature.selected and feature.column not in always_kept]
    n_doubtful = sum(feature.q > DOUBTFUL for feature in selected)
    if 2 * n_doubtful >= len(selected) > 1:
        yield (
            f"{n_doubtful} of the {len(selected)} selected have a q-value above {DOUBTFUL:g}: no test finds them, "
            "alone or in a pair. Culling may keep noise beside what is strong; --fdr 0.1 selects by the tests."
        )


def _describe_samples(analysis: Analysis) -> str:
    y = analysis.table.y
    samples = _write_count(len(y), "sample", "samples")
    if analysis.outcome is SURVIVAL:
        events = _write_count(int(y["event"].sum()), "had the event", "had the event")
        last, middle = (text.format_number(float(value)) for value in (y["time"].max(), np.median(y["time"])))
        return (
            f"The table has {samples}: {events}, the others were censored. Times end at {last}, half before {middle}."
        )
    if not analysis.outcome.has_classes:
        low, middle, high = (text.format_number(float(value)) for value in np.quantile(y, [0.0, 0.5, 1.0]))
        return f"The table has {samples}; the target runs from {low} to {high}, half of it below {middle}."
    classes, counts = np.unique(y, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:NAMED_CLASSES]
    phrases = [f"{text.format_count(int(counts[k]))} {_write_name(text.format_label(classes[k]))}" for k in largest]
    if len(classes) > len(largest):
        phrases.append(f"{len(classes) - len(largest)} smaller classes")
    return f"The table has {samples}: {text.join_words(phrases)}."


def _describe_groups(analysis: Analysis) -> Iterator[str]:
    if analysis.table.groups is not None:
        yield COMPARISONS[compare_groups(analysis.table.y, analysis.table.groups)]


def _describe_steps(analysis: Analysis) -> Iterator[str]:
    taken = sorted((feature for feature in analysis.features if feature.step), key=lambda feature: feature.step)
    if taken:
        names = [_write_name(feature.name) for feature in taken[:NAMED_STEPS]]
        if len(taken) > len(names):
            names.append(f"{len(taken) - len(names)} more")
        yield (
            f"Given each other, {_write_count(len(taken), 'feature remains', 'features remain')}: "
            f"{text.join_words(names)} (forward steps, each at a family-wise level of {LEVEL:g})."
        )


def _describe_interactions(analysis: Analysis) -> Iterator[str]:
    # Scores alone do not say that features act together: only pairs that pass their test do.
    selected = [feature for feature in analysis.features if feature.selected]
    n_paired = sum(feature.partner is not None for feature in selected)
    if n_paired:
        verb = "has" if n_paired == 1 else "have"
        counts = f"{text.format_count(n_paired)} of the {text.format_count(len(selected))} selected"
        yield f"{counts} {verb} a significant interaction with another feature (corrected p at most {LEVEL:g})."
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
    halves = f"{text.format_count(stability.n_halves)} random half-samples by the same rule"
    bound = ""
    if stability.expected_false is not None:
        bound = (
            f"; at most {stability.expected_false:.2g} of these are expected to be unrelated to the target, if "
            "unrelated features are exchangeable (all equally likely to be selected)"
        )
    stable = _write_count(stability.n_stable, "feature was", "features were")
    stable = f"{stable} selected in at least {text.format_percent(stability.threshold)} of them{bound}."
    if not frequencies:
        return f"Stability over {halves}: {stable}"
    mean = text.format_percent(float(np.mean(frequencies)))
    subject = "on average, a selected feature" if len(frequencies) > 1 else "the selected feature"
    return f"Stability: {subject} was selected again in {mean} of {halves}; {stable}"


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
