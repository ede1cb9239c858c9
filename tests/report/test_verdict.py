"""The verdict: four lines, whose levels and numbers agree with the analysis."""

from dataclasses import replace

import numpy as np
import pytest
from fitted import analysis_of

from randsel import datasets
from randsel.analysis import Accuracy, PanelSizes, Rule, Stability
from randsel.report import LEVELS, describe_details, format_verdict, verdict
from randsel.report._folder import format_summary
from randsel.tables import Table


@pytest.fixture(scope="module")
def found():
    X, y, _ = datasets.make_xor(160, 10, random_state=0)
    names = tuple(f"gene {j}" for j in range(10))
    table = Table(X, np.where(y > 0, "case", "control"), names)
    return analysis_of(table, "classification", halves=4, folds=2)


def line(analysis, question):
    return next(line for line in verdict(analysis) if question in line.question)


def select(analysis, frequencies):
    """Let the first features be selected, with these stabilities."""
    values = [*frequencies, *[0.0] * (len(analysis.features) - len(frequencies))]
    features = tuple(
        replace(f, selected=k < len(frequencies), stability=values[k]) for k, f in enumerate(analysis.features)
    )
    by_column = np.zeros(len(features))
    by_column[[f.column for f in features]] = values
    return replace(analysis, features=features, stability=Stability(50, 0.6, None, by_column))


def test_four_lines_answer_four_questions(found):
    lines = verdict(found)
    assert [line.question for line in lines] == [
        "Is there a signal?",
        "Is the selection stable?",
        "How well does it predict?",
        "What to beware of?",
    ]
    assert {line.level for line in lines} <= set(LEVELS)
    assert format_verdict(found).splitlines() == [f"{line.question} {line.text}" for line in lines]
    for word in ("half-sample", "culling", "contribution", "nested"):
        assert word not in format_verdict(found)
        assert word not in " ".join(describe_details(found))


@pytest.mark.parametrize(
    ("frequencies", "level", "words"),
    [
        ([1.0, 0.9], "good", "Yes: on average, a selected feature was selected again in 95\u202f% of 50 random halves"),
        ([0.7, 0.1], "fair", "In part: on average, a selected feature was selected again in 40\u202f%"),
        ([0.2, 0.0], "poor", "No, other samples give other features: "),
        ([0.5], "fair", "the selected feature was selected again in 50\u202f% of 50 random halves of the samples."),
    ],
)
def test_stability_counts_the_selected_features(found, frequencies, level, words):
    judged = line(select(found, frequencies), "stable")
    assert judged.level == level
    assert words in judged.text
    if len(frequencies) > 1:
        n_stable = sum(value >= 0.6 for value in frequencies)
        assert f"{n_stable} of {len(frequencies)} were selected in at least 60\u202f% of the halves" in judged.text


@pytest.mark.parametrize(
    ("selected", "everything", "level", "words"),
    [
        ([0.8, 0.84], [0.81, 0.82], "good", "and as well as all features together: balanced accuracy 0.82"),
        ([0.8, 0.84], [0.61, 0.62], "good", "and better than all features together"),
        ([0.8, 0.9], [0.78, 0.8], "good", "and as well as all features together"),  # less than two standard errors
        (
            [0.8, 0.8],
            [0.8, 0.9],
            "good",
            "and as well as all features together",
        ),  # one fold differs: one standard error
        ([0.8, 0.84], [0.91, 0.92], "fair", "but not as well as all features together"),
        ([0.4, 0.65], [0.9, 0.9], "poor", "No better than chance, within the spread of the folds"),
    ],
)
def test_prediction_is_compared_with_chance_and_all_features(found, selected, everything, level, words):
    accuracy = Accuracy("balanced accuracy", np.array(selected), np.array(everything), 0.5, np.array([2, 2]))
    judged = line(replace(found, accuracy=accuracy), "predict")
    assert judged.level == level
    assert words in judged.text
    assert "chance 0.50" in judged.text
    assert "nothing was selected" not in judged.text
    judged = line(replace(found, accuracy=replace(accuracy, sizes=np.array([0, 2]))), "predict")
    assert judged.text.endswith("In 1 of the folds nothing was selected, which counts as guessing.")


@pytest.mark.parametrize(
    ("pvalue", "level", "answer"),
    [(0.02, "good", "Yes. "), (0.5, "good", "Yes, in combination. "), (None, "good", "Yes, in combination. ")],
)
def test_a_signal_that_predicts_no_better_than_chance_is_weak(found, pvalue, level, answer):
    predicts = Accuracy("balanced accuracy", np.array([0.8, 0.84]), np.array([0.8, 0.84]), 0.5, np.array([2, 2]))
    guesses = replace(predicts, selected=np.array([0.5, 0.72]))
    found = replace(found, path=replace(found.path, noise_pvalue=pvalue))
    for accuracy in (predicts, None):
        judged = line(replace(found, accuracy=accuracy), "signal")
        assert (judged.level, judged.text.startswith(answer)) == (level, True)
        assert "Held-out" not in judged.text
    judged = line(replace(found, accuracy=guesses), "signal")
    assert judged.level == "fair"
    assert judged.text.startswith("A weak signal. ")
    assert ". Held-out samples are not predicted better than chance. Of 10 features, " in judged.text
    by_tests = replace(found, accuracy=guesses, nothing_stands_out=True)
    assert line(by_tests, "signal").text.startswith("In part. ")
    assert "Held-out samples are not predicted" in line(by_tests, "signal").text
    nothing = replace(found, accuracy=guesses, nothing_stands_out=True, rule=Rule("top", top=2))
    nothing = replace(nothing, features=tuple(replace(f, q=1.0) for f in found.features), pairs=())
    assert line(nothing, "signal").text.startswith("No. ")


def test_features_kept_by_request_are_not_named_as_selected(found):
    chosen = [feature for feature in found.features if feature.selected]
    by_path = replace(found, rule=Rule("path", always_kept=(chosen[0].column,)))
    expected = f"Of 10 features, 1 was selected: {chosen[1].name}. Kept by request: 1."
    assert line(by_path, "signal").text.endswith(expected)
    on_top = replace(found, rule=Rule("top", top=2, always_kept=tuple(feature.column for feature in chosen)))
    on_top = replace(on_top, nothing_stands_out=True)
    assert line(on_top, "signal").text.endswith("Of 10 features, 0 were selected. Kept by request: 2.")


def test_a_good_prediction_without_a_signal_is_doubted(found):
    accuracy = Accuracy("balanced accuracy", np.array([0.8, 0.84]), np.array([0.61, 0.62]), 0.5, np.array([2, 2]))
    judged = line(replace(found, accuracy=accuracy, nothing_stands_out=True), "predict")
    assert judged.level == "fair"
    assert "although the features as a whole do not stand out from chance" in judged.text


def test_what_was_not_measured_is_unknown(found):
    bare = replace(found, accuracy=None, stability=None, panel_sizes=None)
    assert [line.level for line in verdict(bare)][1:3] == ["unknown", "unknown"]
    kept = select(found, [np.nan])
    assert line(kept, "stable").level == "unknown"


def test_signal_found_by_tests_only_or_not_at_all(found):
    tests_only = replace(found, nothing_stands_out=True, rule=Rule("tests", fdr=0.05))
    assert line(tests_only, "signal").level == "fair"
    assert line(tests_only, "signal").text.startswith("In part.")
    features = tuple(replace(f, selected=False, q=1.0) for f in found.features)
    nothing = replace(tests_only, rule=Rule("nothing"), features=features)
    assert line(nothing, "signal").level == "poor"
    assert "None of 10 features was selected" in line(nothing, "signal").text


def test_warnings_are_named_in_short(found):
    warned = replace(
        found,
        warnings=(
            "The classes are unequal: 4 samples of class a, 36 of class b. Judge models by balanced accuracy.",
            "9 features are exact copies of others. Copies have the same scores.",
        ),
    )
    judged = line(warned, "beware")
    assert judged.level == "fair"
    expected = "2 warnings: The classes are unequal; 9 features are exact copies of others. "
    assert judged.text.startswith(expected)
    assert line(replace(found, warnings=()), "beware").level == "good"


def test_the_panel_size_is_said_with_its_scores(found):
    scores = np.array([[0.5, 0.8, 0.84], [0.7, 0.9, 0.96]])
    details = describe_details(replace(found, panel_sizes=PanelSizes(np.array([1, 2, 5]), scores, 2)))
    assert (
        "Panel size: 5 features (balanced accuracy 0.90) predict best; 2 features are within one standard error of "
        "that (0.85). The best score is optimistic, because it was chosen among several." in details
    )
    details = describe_details(replace(found, panel_sizes=PanelSizes(np.array([1, 2, 5]), scores, 1)))
    advice = "--top 2 selects as many as cross-validation asks for"
    optimistic = "The best score is optimistic, because it was chosen among several."
    assert any(
        sentence.endswith(f"(0.85). The first 1, as many as are selected, reaches 0.60; {advice}. {optimistic}")
        for sentence in details
    )
    scores = np.array([[0.5, 0.6, 0.88], [0.7, 0.8, 0.92]])
    details = describe_details(replace(found, panel_sizes=PanelSizes(np.array([1, 2, 5]), scores, 2)))
    assert any(
        "predict best. The first 2, as many as are selected, reach 0.70; --top 5 selects" in sentence
        for sentence in details
    )


def test_the_summary_file_has_verdict_warnings_and_notes(found):
    said = format_summary(replace(found, warnings=("Be careful.",), notes=("A note.",), settings={"command": "run it"}))
    assert said.startswith(format_verdict(found).splitlines()[0])
    for words in ("Details:\n", "Warnings:\nBe careful.\n", "Notes:\nA note.\n", "Command:\nrun it\n"):
        assert words in said
