"""The verdict on an analysis and its details in sentences, for the top of the report and for the terminal."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from randsel._utils import text
from randsel.analysis import Analysis, Effects, PanelSizes, Rule
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
#: What an effect does not say.
MEANING_OF_EFFECT = "A feature may be a proxy of the cause rather than the cause."
#: Least mean fraction of halves in which selected features are selected again, level, and answer.
STABILITY_LEVELS = (
    (0.6, "good", "Yes"),
    (0.3, "fair", "In part"),
    (0.0, "poor", "No, other samples give other features"),
)
DOUBTFUL = 0.5  # a selected feature with a q-value above this is called doubtful
NEARLY = 0.1  # up to this p-value, readers may take for a signal what is none here
ROUNDING = 1e-9  # differences of scores below this are those of rounding
LONG_NAME = 50  # maximum number of characters of a name in a sentence
NAMED_CLASSES = 5  # maximum number of classes that are named with their counts
NAMED_STEPS = 10  # maximum number of features of forward steps that are named


class VerdictLine(NamedTuple):
    """One line of the verdict on an analysis: a question, how good the answer is (`LEVELS`), and the answer."""

    question: str
    level: str
    text: str


#: Levels of a line of the verdict; "unknown" if nothing was measured.
LEVELS = ("good", "fair", "poor", "unknown")


def verdict(analysis: Analysis) -> list[VerdictLine]:
    """Return the four lines that come first: is there a signal, is it stable, does it predict, what to beware of."""
    return [
        VerdictLine("Is there a signal?", *_judge_signal(analysis)),
        VerdictLine("Is the selection stable?", *_judge_stability(analysis)),
        VerdictLine("How well does it predict?", *_judge_prediction(analysis)),
        VerdictLine("What to beware of?", *_judge_warnings(analysis)),
    ]


def summarise(analysis: Analysis) -> list[str]:
    """Return the results as sentences: the four of the verdict, then the details."""
    return [*(line.text for line in verdict(analysis)), *describe_details(analysis)]


def describe_details(analysis: Analysis) -> list[str]:
    """Return what the verdict does not say: the rule of the selection, the samples, forward steps, pairs, sizes."""
    return [
        describe_rule(analysis.rule),
        *_describe_kept(analysis),
        *_describe_doubts(analysis),
        _describe_samples(analysis),
        *_describe_groups(analysis),
        *_describe_steps(analysis),
        *_describe_interactions(analysis),
        *_describe_stable(analysis),
        *_describe_panel_sizes(analysis),
    ]


# ---------------------------------------------------------------- verdict


def _judge_signal(analysis: Analysis) -> tuple[str, str]:
    """Say whether the features as a whole stand out from noise, and how many were selected."""
    level, answer, reason = _weigh_evidence(analysis)
    if level != "poor" and analysis.accuracy is not None and analysis.accuracy.is_close_to_chance:
        level, answer = "fair", "In part" if analysis.nothing_stands_out else "A weak signal"
        reason = f"{reason} Held-out samples are not predicted better than chance."
    return level, f"{answer}. {reason} {_describe_selection(analysis)}"


def _weigh_evidence(analysis: Analysis) -> tuple[str, str, str]:
    """Return level, answer and reason by the tests of the features, whatever the accuracy."""
    pvalue = analysis.path.noise_pvalue
    p = f"p = {text.format_p_value(pvalue)}"
    tested = f"{p}, from {N_PERMUTATIONS} shuffles of the target"
    is_close = pvalue is not None and NOISE_LEVEL < pvalue <= NEARLY
    strict = f" A signal needs a p-value of at most {NOISE_LEVEL:g}." if is_close else ""
    if analysis.nothing_stands_out and not analysis.has_findings:
        reason = f"Nothing stands out: the features are related to the target no more closely than chance ({tested})."
        return "poor", "No", f"{reason}{strict}"
    if analysis.nothing_stands_out:
        reason = (
            f"The features as a whole do not stand out from chance ({tested}), but tests of single features or pairs "
            "find some."
        )
        return "fair", "In part", f"{reason}{strict}"
    if pvalue is None or pvalue > NOISE_LEVEL:
        is_tested = any(feature.q <= LEVEL for feature in analysis.features)
        reason = (
            "Together, the features fit the target better than noise would, although one by one they do not stand "
            f"out ({tested})."
        )
        return "good" if is_tested else "fair", "Yes, in combination", reason
    if round(pvalue * (N_PERMUTATIONS + 1)) == 1:
        tested = f"{p}, the smallest that {N_PERMUTATIONS} shuffles of the target allow"
    return "good", "Yes", f"The features as a whole are related to the target ({tested})."


def _describe_selection(analysis: Analysis) -> str:
    total, kept = text.format_count(len(analysis.features)), analysis.rule.always_kept
    n_selected = sum(feature.selected for feature in analysis.features)
    if not n_selected:
        return f"None of {total} features was selected: the ranking is not a finding."
    if not analysis.has_findings:
        return f"The selected features ({n_selected} of {total}) were requested, and are not a finding."
    names = [_write_name(f.name) for f in analysis.features if f.selected and f.column not in kept]
    start = f"Of {total} features, {_write_count(len(names), 'was selected', 'were selected')}"
    listed = f"{':' if len(names) <= 3 else '; the first are'} {text.join_words(names[:3])}" if names else ""
    return _end_sentence(f"{start}{listed}") + (f" Kept by request: {len(kept)}." if kept else "")


def _judge_stability(analysis: Analysis) -> tuple[str, str]:
    stability = analysis.stability
    if stability is None:
        return "unknown", "Not measured."
    frequencies = [f.stability for f in analysis.features if f.selected and np.isfinite(f.stability)]
    halves = f"{text.format_count(stability.n_halves)} random halves of the samples"
    if not frequencies:
        return "unknown", f"There is no selected feature to look for in {halves}."
    mean, n_stable = float(np.mean(frequencies)), sum(value >= stability.threshold for value in frequencies)
    level, answer = next(entry[1:] for entry in STABILITY_LEVELS if mean >= entry[0])
    enough = f"selected in at least {text.format_percent(stability.threshold)} of the halves"
    if len(frequencies) == 1:
        again = f"the selected feature was selected again in {text.format_percent(mean)} of {halves}"
    else:
        again = (
            f"on average, a selected feature was selected again in {text.format_percent(mean)} of {halves}; "
            f"{n_stable} of {text.format_count(len(frequencies))} were {enough}"
        )
    return level, f"{answer}: {again}."


def _judge_prediction(analysis: Analysis) -> tuple[str, str]:
    accuracy = analysis.accuracy
    if accuracy is None:
        return "unknown", "Not measured."
    losses = accuracy.everything - accuracy.selected
    # if a single fold differs, the mean is equal to its standard error, up to rounding
    error = (float(np.std(losses, ddof=1)) / len(losses) ** 0.5 if len(losses) > 1 else 0.0) + ROUNDING
    if accuracy.is_close_to_chance:
        level, answer = "poor", "No better than chance, within the spread of the folds"
    elif float(np.mean(losses)) > error:
        level, answer = "fair", "Better than chance, but not as well as all features together"
    elif float(np.mean(losses)) < -2.0 * error:  # a claim, which needs more evidence than a caution
        level, answer = "good", "Better than chance, and better than all features together"
    else:
        level, answer = "good", "Better than chance, and as well as all features together"
    if level == "good" and analysis.nothing_stands_out:
        level, answer = "fair", f"{answer}, although the features as a whole do not stand out from chance"
    selected, everything = text.format_mean_and_sd(accuracy.selected), text.format_mean_and_sd(accuracy.everything)
    n_empty = int((np.asarray(accuracy.sizes) == 0).sum())
    empty = f" In {n_empty} of the folds nothing was selected, which counts as guessing." if n_empty else ""
    return level, (
        f"{answer}: {accuracy.measure} {selected} on samples that took no part in the selection "
        f"({len(accuracy.selected)} folds); chance {accuracy.chance:.2f}, all features {everything}.{empty}"
    )


def _judge_warnings(analysis: Analysis) -> tuple[str, str]:
    warnings = [text.make_visible(warning) for warning in analysis.warnings]
    if not warnings:
        return "good", f"No warning was raised. {MEANING_OF_EFFECT}"
    problems = [re.split(r"[:;.(]\s", warning, maxsplit=1)[0].strip().rstrip(".") for warning in warnings]
    number = _write_count(len(warnings), "warning", "warnings")
    return "fair", f"{number}: {'; '.join(problems)}. {MEANING_OF_EFFECT}"


# ---------------------------------------------------------------- details


def describe_effect(effects: Effects) -> str:
    """Say what the effects of features are, and what a difference subtracts."""
    limits = "95 % confidence limits in brackets; the direction is left out if they include no effect"
    if effects.measure == "hazard ratio":
        return f"hazard ratio: per standard deviation of the feature alone; {limits}."
    if effects.measure == "correlation":
        return f"correlation: rank correlation of the feature with the target; {limits}."
    meaning = f"AUC: how well the feature alone tells classes apart, from 0.5 (not at all) to 1; {limits}."
    if effects.difference_name is None:
        return f"{meaning} Of several classes, the one that differs most is compared with the others."
    first, second = (text.name_class(_write_name(text.make_visible(label))) for label in effects.classes)
    return f"{meaning} {effects.difference_name}: {effects.centre} of {second} minus {effects.centre} of {first}."


def describe_rule(rule: Rule) -> str:
    """Return the sentence that says which features are called selected in a run."""
    if rule.name == "path":
        return (
            "The weakest features were removed step by step; selected is the smallest set whose error for left-out "
            "samples is within one standard error of the least. This error is optimistic, because the same samples "
            "ranked the features."
        )
    if rule.name == "tests":
        return (
            f"Selected are the features with a q-value of at most {rule.fdr:g}, because the features as a whole do not "
            "stand out from chance, but these tests do."
        )
    if rule.name == "top":
        number = "feature" if rule.top == 1 else f"{rule.top} features"
        return f"Selected is what --top requests: the first {number} of the ranking, whether or not they stand out."
    if rule.name == "fdr":
        number = "the features" if rule.top is None else f"the first features, at most {rule.top},"
        return f"Selected are {number} with a q-value of at most {rule.fdr:g} (--fdr)."
    nothing = "Nothing is selected by the data" if rule.always_kept else "Nothing is selected"
    return f"{nothing}: the features as a whole do not stand out from chance, and no q-value is at most {LEVEL:g}."


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
            "alone or in a pair. They may be noise that was kept along with strong ones; --fdr 0.1 selects by tests."
        )


def _describe_samples(analysis: Analysis) -> str:
    y = analysis.table.y
    samples = _write_count(len(y), "sample", "samples")
    if analysis.outcome is SURVIVAL:
        events = _write_count(int(y["event"].sum()), "had the event", "had the event")
        last, middle = (text.format_number(float(value)) for value in (y["time"].max(), np.median(y["time"])))
        times = f"The longest time is {last}, the median {middle}."
        return f"The table has {samples}: {events}, the others were censored. {times}"
    if not analysis.outcome.has_classes:
        low, middle, high = (text.format_number(float(value)) for value in np.quantile(y, [0.0, 0.5, 1.0]))
        return f"The table has {samples}; the target ranges from {low} to {high}, with median {middle}."
    classes, counts = np.unique(y, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:NAMED_CLASSES]
    of_class = "" if y.dtype.kind == "U" else "of class "  # numbers need a word between them
    phrases = [
        f"{text.format_count(int(counts[k]))} {of_class}{_write_name(text.format_label(classes[k]))}" for k in largest
    ]
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
            f"In forward steps, {_write_count(len(taken), 'feature is', 'features are')} significant given those of "
            f"earlier steps: {text.join_words(names)} (family-wise level of each step: {LEVEL:g})."
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
            yield f"No pair of features stands out after correction for their number (smallest corrected p {p})."
        else:
            others = f", the first of {text.format_count(n_significant)} below {LEVEL:g}" if n_significant > 1 else ""
            first, second = _write_name(best.first), _write_name(best.second)
            yield f"The strongest pair is {first} with {second} (corrected p {p}){others}."


def _describe_stable(analysis: Analysis) -> Iterator[str]:
    """Say how many features are stable, and how many of them noise could be."""
    if (stability := analysis.stability) is None:
        return
    bound = ""
    if stability.expected_false is not None:
        bound = (
            "; the expected number of features among them that are unrelated to the target is at most "
            f"{stability.expected_false:.2g}, if all unrelated features are equally likely to be selected"
        )
    stable = _write_count(stability.n_stable, "feature was", "features were")
    enough = f"at least {text.format_percent(stability.threshold)} of {text.format_count(stability.n_halves)}"
    yield f"{stable} selected in {enough} random halves of the samples, by the same rule{bound}."


def _describe_panel_sizes(analysis: Analysis) -> Iterator[str]:
    """Say how many features are enough in cross-validation."""
    if (curve := analysis.panel_sizes) is None or analysis.accuracy is None:
        return
    score = {int(size): f"{mean:.2f}" for size, mean in zip(curve.sizes, curve.means, strict=True)}
    best = f"{_write_count(curve.best, 'feature', 'features')} ({analysis.accuracy.measure} {score[curve.best]})"
    verb = "predicts" if curve.best == 1 else "predict"
    selected = _describe_selected_size(curve, score)
    optimistic = " The best score is optimistic, because it was chosen among several."
    if curve.one_se == curve.best:
        tried = f"of the sizes that were tried ({text.format_range(curve.sizes)})"
        yield f"Panel size: {tried}, {best} {verb} best.{selected}{optimistic}"
    else:
        enough = f"{_write_count(curve.one_se, 'feature is', 'features are')} within one standard error of that"
        yield f"Panel size: {best} {verb} best; {enough} ({score[curve.one_se]}).{selected}{optimistic}"


def _describe_selected_size(curve: PanelSizes, score: Mapping[int, str]) -> str:
    """Say how well as many features as were selected predict, if they are fewer than are enough."""
    if not 0 < curve.selected < curve.one_se or curve.selected not in score:
        return ""
    verb = "reaches" if curve.selected == 1 else "reach"
    advice = f"--top {curve.one_se} selects as many as cross-validation asks for"
    return f" The first {curve.selected}, as many as are selected, {verb} {score[curve.selected]}; {advice}."


def _write_name(name: str) -> str:
    return text.shorten(text.make_visible(name), LONG_NAME)


def _end_sentence(words: str) -> str:
    """Add a full stop, unless a shortened name ends in an ellipsis."""
    return words if words.endswith("…") else f"{words}."


def _write_count(count: int, singular: str, plural: str) -> str:
    return f"{text.format_count(count)} {text.pluralise(count, singular, plural)}"
