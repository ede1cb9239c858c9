"""The benchmark of outcomes: its yardsticks, and a quick version of its figures."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def means(modules, name, n_sets, seed=5):
    """Return the mean of every measure and test of a cell over some data sets."""
    cell = modules("outcomes").all_cells(Path("nowhere"))[name]
    values = {}
    for number in range(n_sets):
        for tally in cell.simulate(np.random.default_rng([seed, number])):
            values.setdefault((tally.measure, tally.test), []).append(tally.total / tally.weight)
    return {key: np.mean(collected) for key, collected in values.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("section", ["recall", "batches"])
def test_adjusted_selections_prefer_relevant_features(modules, section):
    result = means(modules, f"covariates/{section}/effect 1", 4)
    assert result["recall", "RandSel(5), adjusted"] >= 0.85
    assert result["recall", "RandSel(5), adjusted"] > result["recall", "RandSel(5)"]
    assert result["of them nuisance-driven", "RandSel(5)"] > 0.1
    assert result["of them nuisance-driven", "RandSel(5), adjusted"] < 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name",
    [
        "covariates/error/quadratic/numbers",
        "covariates/error/exponential/10 % cases",
        "survival/dependent/30 % censored, higher risk earlier/n 200",
    ],
)
def test_features_that_depend_on_a_covariate_are_not_called_given_it(modules, name):
    result = means(modules, name, 12)
    # 4 of 12 data sets have a probability of .002 if the error is .05
    assert result["any called", "randsel"] <= 0.25
    assert result["any called", "not adjusted"] > 0.8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_features_are_called_beside_censored_samples(modules):
    result = means(modules, "survival/power/linear effect/30 % censored/n 200", 5)
    assert result["called", "Cox score"] > 0.3
    assert result["called", "randsel"] > 0.2
    assert result["recall of 5", "RandSel(5)"] > 0.3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_few_missing_values_cost_no_recall(modules):
    result = means(modules, "missing/recall/XOR, 300×100", 4)
    assert result["recall", "0 %"] == 1.0
    assert result["drop", "10 %"] == 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_complementary_feature_ranks_before_copies_of_a_kept_marker(modules):
    result = means(modules, "fixed/marker/effect 0.7", 5)
    assert result["complementary feature first", "always_keep"] >= 0.8


def test_the_cox_score_test_of_two_groups_is_the_log_rank_test(modules):
    survival, rng = modules("outcomes_survival"), np.random.default_rng(1)
    group = rng.integers(0, 2, size=80)
    y = survival.draw_survival(rng, 0.5 * group, 0.3)
    samples = [
        stats.CensoredData.right_censored(part["time"], ~part["event"]) for part in (y[group == 0], y[group == 1])
    ]
    pvalue = survival.cox_score_pvalues(group[:, None].astype(float), y)[0]
    assert pvalue == pytest.approx(stats.logrank(*samples).pvalue, rel=1e-9)


def test_the_adjusted_cox_score_test_does_not_call_copies_of_the_covariate(modules):
    survival, rng = modules("outcomes_survival"), np.random.default_rng(2)
    z = rng.normal(size=200)
    X = z[:, None] + 0.5 * rng.normal(size=(200, 100))
    y = survival.draw_survival(rng, z, 0.3)
    assert np.median(survival.cox_score_pvalues(X, y)) < 1e-6
    assert 0.3 < np.median(survival.cox_score_pvalues(X, y, z)) < 0.7


@pytest.mark.slow
def test_the_page_marks_goals_and_says_where_its_figures_come_from(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "quality" / "outcomes.py"), "--cells", str(tmp_path / "cells")]
    command += ["--only", "fixed/marker/effect 0.7", "--sets", "10", "--jobs", "1"]
    for arguments in ([], ["--page-only", "--out", str(tmp_path / "outcomes.md")]):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
        assert "| effect 0.7 | always_keep | 10 |" in done.stdout
    page = (tmp_path / "outcomes.md").read_text()
    assert "`make bench-outcomes`, commit " in page
    assert "family-wise error at most 0.07" in page
