"""The benchmark of errors: its estimates and blocks, and the sizes of the p-values in a quick version of it."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LEVELS = {"p ≤ .05": 0.05, "p ≤ .001": 0.001}


def sizes(modules, name, n_sets):
    """Yield each level, the fraction of p-values at most that, and its standard error.

    The error is at least that of independent p-values of this size.
    """
    cell = modules("errors").all_cells(Path("nowhere"))[name]
    tallies = [t for seed in range(n_sets) for t in cell.simulate(np.random.default_rng([77, seed]))]
    for measure, level in LEVELS.items():
        weights, totals = zip(*[(t.weight, t.total) for t in tallies if t.measure == measure], strict=True)
        result = modules("estimates").estimate(weights, totals)
        yield level, result.value, max(result.error, np.sqrt(level * (1.0 - level) / sum(weights)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y is constant within:UserWarning")
@pytest.mark.parametrize(
    "name",
    [
        "size/classes/classes 10 %/n 100",
        "size/classes/classes 50 %/n 30",
        "size/classes/classes 50 %/n 100",
        "size/numbers/normal/n 100",
        "size/numbers/lognormal/n 100",
        "size/groups/constant/classes 50 %/30 groups",
        "size/groups/varying/classes 50 %/30 groups",
        "size/groups/mixed/classes 50 %/30 groups",
        "size/groups/constant/normal/30 groups",
        "size/groups/varying/normal/30 groups",
        "size/groups/mixed/normal/30 groups",
        "size/groups/paired/20 donors",
        "size/batches/classes 50 %/n 100",
        "size/batches/lognormal/n 100",
        "size/columns/SNP/classes 10 %/n 100",
    ],
)
def test_p_values_of_features_are_small_as_often_as_their_level(modules, name):
    for level, size, error in sizes(modules, name, 40):
        assert size <= 1.1 * level + 3.5 * error
        # a test of few samples or of discrete columns may be conservative, but not by half
        assert size >= level / 2.0 - 3.5 * error


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["classes 10 %", "classes 50 %", "normal", "lognormal"])
@pytest.mark.parametrize("situation", ["null", "beside main effects"])
def test_p_values_of_pairs_are_not_small_too_often(modules, situation, outcome):
    for level, size, error in sizes(modules, f"size/pairs/all of 10/{situation}/{outcome}/n 100", 40):
        assert size <= 1.1 * level + 3.5 * error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:n_pairs=45 but:UserWarning")  # of ten columns of rare levels, some are constant
@pytest.mark.parametrize("outcome", ["classes 10 %", "normal", "lognormal", "counts"])
@pytest.mark.parametrize("columns", ["rare SNP", "lognormal"])
def test_p_values_of_pairs_of_other_columns_are_not_small_too_often(modules, columns, outcome):
    for level, size, error in sizes(modules, f"size/pairs of columns/all of 10/{columns}/{outcome}/n 100", 40):
        assert size <= 1.1 * level + 3.5 * error


def test_the_standard_error_is_that_of_means_of_data_sets(modules):
    totals = np.random.default_rng(0).binomial(300, 0.05, size=50)
    result = modules("estimates").estimate([300.0] * 50, totals)
    assert result.value == pytest.approx((totals / 300.0).mean())
    assert result.error == pytest.approx(stats.sem(totals / 300.0))


def test_yardsticks_agree_with_scipy_column_by_column(modules):
    rng = np.random.default_rng(1)
    tests, data = modules("errors_tests"), modules("errors_data")
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    pvalues = tests.numbers(data.Sample(X, y, data.NUMBERS))
    np.testing.assert_allclose(pvalues["Pearson"], [stats.pearsonr(x, y).pvalue for x in X.T])
    np.testing.assert_allclose(pvalues["Spearman"], [stats.spearmanr(x, y).pvalue for x in X.T])
    permuted = tests.permutation_tests(data.Sample(X, y, data.NUMBERS))
    scores = [tests.column_scores(values) for values in (X, y[:, None])]
    of_scores = [stats.pearsonr(x, scores[1][:, 0]).pvalue for x in scores[0].T]
    np.testing.assert_allclose(permuted["permuted scores"], of_scores, atol=0.03)
    np.testing.assert_allclose(permuted["permuted ranks"], pvalues["Spearman"], atol=0.03)
    np.testing.assert_allclose(permuted["permuted values"], pvalues["Pearson"], atol=0.03)


def test_permutation_tests_of_few_cases_are_exact(modules):
    rng = np.random.default_rng(3)
    tests, data = modules("errors_tests"), modules("errors_data")
    X, y = rng.normal(size=(20, 4)), (np.arange(20) < 3).astype(int)
    X[:3] += [0.0, 1.0, 2.0, 4.0]
    permuted = tests.permutation_tests(data.Sample(X, y, data.CLASSES))
    exact = stats.mannwhitneyu(X[y == 0], X[y == 1], axis=0, method="exact").pvalue
    np.testing.assert_allclose(permuted["permuted ranks"], exact)


def test_permutation_tests_of_several_classes_agree_with_scipy(modules):
    rng = np.random.default_rng(4)
    tests, data = modules("errors_tests"), modules("errors_data")
    X, y = rng.normal(size=(60, 4)), np.repeat([0, 1, 2], (30, 20, 10))
    permuted = tests.permutation_tests(data.Sample(X, y, data.CLASSES))
    classical = tests.several_classes(data.Sample(X, y, data.CLASSES))
    np.testing.assert_allclose(permuted["permuted ranks"], classical["Kruskal-Wallis"], atol=0.03)
    np.testing.assert_allclose(permuted["permuted values"], classical["F"], atol=0.03)


def test_a_test_that_does_not_hold_its_size_is_replaced_by_its_permutation_test(modules):
    page, cells, estimates = modules("errors_page"), modules("cells"), modules("estimates")
    cell = cells.Cell("power/shift/x/n 30", 10, None)
    powers = {"Mann-Whitney": 14, "Welch t": 18, "permuted values": 15, cells.OURS: 12}
    tallies = [["p ≤ .05", test, [20.0] * 10, [total] * 10] for test, total in powers.items()]
    for size, better in ((1.0, "Welch t"), (4.0, "permuted values")):
        sizes = [["size at 0.05", "Welch t", [20.0] * 10, [size] * 10]]
        results = estimates.Results([{"cell": cell.name, "tallies": tallies + sizes}])
        test, power, ratio = page.ratio_to_better(results, cell, 0.05)
        assert test == better
        assert power == pytest.approx(powers[better] / 20.0)
        assert ratio.value == pytest.approx(12 / powers[better])


def test_columns_given_the_latent_variable_have_their_own_distribution(modules):
    data, rng = modules("errors_data"), np.random.default_rng(2)

    def draw(generator, size):
        return generator.laplace(size=size)

    hidden = draw(rng, 2000)
    latent = 0.7 * hidden + rng.normal(size=2000)
    X = data.columns_given_latent(rng, latent, hidden, draw, lambda x: 0.7 * x, 2)
    slopes = [stats.linregress(x, latent).slope for x in X.T]
    np.testing.assert_allclose(slopes, 0.7, atol=0.1)
    assert stats.ks_2samp(X[:, 0], draw(rng, 5000)).statistic < 0.06
    # independent given the latent variable: what is left of one column says nothing about the other
    residuals = [x - np.poly1d(np.polyfit(latent, x, 5))(latent) for x in X.T]
    assert abs(np.corrcoef(residuals)[0, 1]) < 0.08


@pytest.mark.slow
def test_finished_blocks_are_not_simulated_again(tmp_path):
    def run(*arguments):
        command = [sys.executable, str(BENCHMARKS / "quality" / "errors.py"), "--cells", str(tmp_path / "cells")]
        command += ["--only", "size/classes/classes 50 %/n 30/", "--jobs", "1", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True)

    first = run("--sets", "10")
    assert "1 to be simulated" in first.stderr
    second = run("--sets", "20", "--out", str(tmp_path / "errors.md"))
    assert "2 blocks of 10 data sets, 1 to be simulated" in second.stderr
    with (tmp_path / "errors.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["situation"], row["data sets"]) == ("classes 50 %, n 30", "20")
    records = [
        json.loads(line) for path in (tmp_path / "cells").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert sorted(r["block"] for r in records if "block" in r) == [0, 1]


def test_an_archive_holds_all_blocks_and_is_read_on_another_machine(modules, tmp_path):
    simulation, records = modules("simulation"), modules("records")
    here, there, archive = tmp_path / "here", tmp_path / "there", tmp_path / "errors.jsonl.xz"
    sources, first, second = {"a": "1", "b": "1"}, {"date": "2026-01-01"}, {"date": "2026-01-02"}
    blocks = simulation.Blocks(here, sources)
    blocks.append(("a", 0), {"tallies": [1]}, first)
    blocks.write_archive(archive)

    blocks = simulation.Blocks(there, sources, archive=archive)
    assert blocks.by_task[("a", 0)]["tallies"] == [1]
    blocks.append(("b", 0), {"tallies": [2]}, second)
    blocks.write_archive(archive)
    assert [(r["cell"], run) for r, run in records.Records(tmp_path / "none", archive)] == [("a", first), ("b", second)]
    assert simulation.Blocks(tmp_path / "none", sources, archive=archive).distinct_runs() == [first, second]
    # blocks of other answers are not used
    assert not simulation.Blocks(tmp_path / "none", {"a": "2"}, archive=archive).by_task
