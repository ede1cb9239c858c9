"""Cautions about tables: those with a fault raise one, those that only look like it do not."""

import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

from randsel import InteractionScan
from randsel.analysis import Accuracy, Pair, _cautions, cautions, check_pairs
from randsel.tables._read import Table, read
from randsel.targets._kinds import CLASSES, NUMBERS


@pytest.fixture
def table(rng):
    X = rng.standard_normal((80, 120))
    return Table(X, np.repeat(["case", "control"], 40), tuple(f"g{j}" for j in range(120)))


def only(sentences, *words):
    """Check that there is one caution, and that it has these words."""
    assert len(sentences) == 1, sentences
    assert all(word in sentences[0] for word in words), sentences[0]


def test_a_faultless_table_raises_no_caution(table, rng):
    assert cautions(table, CLASSES) == ()
    assert cautions(replace(table, y=rng.standard_normal(80)), NUMBERS) == ()
    assert cautions(replace(table, batch=np.tile(["a", "b"], 40)), CLASSES) == ()
    assert cautions(replace(table, batch=np.zeros(80)), CLASSES) == ()
    # every sample its own batch: perfectly associated, but no evidence of confounding
    assert cautions(replace(table, batch=np.arange(80)), CLASSES) == ()


def test_missing_values_raise_no_caution_and_hide_none(table, rng):
    X = np.where(rng.random(table.X.shape) < 0.1, np.nan, table.X)
    assert cautions(replace(table, X=X), CLASSES) == ()
    constant = X.copy()
    constant[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 1.0)
    only(cautions(replace(table, X=constant), CLASSES), "1 feature is constant")
    repeated = X.copy()
    repeated[1] = repeated[0]
    only(cautions(replace(table, X=repeated), CLASSES), "1 sample is an exact copy")
    alike = X.copy()
    alike[1] = np.where(np.isnan(alike[0]), np.nan, alike[0] + 1e-9)
    only(cautions(replace(table, X=alike), CLASSES), "2 samples are nearly copies")


def test_values_that_are_missing_by_class_or_number(table, rng):
    rates = np.where(table.y == "case", 0.3, 0.1)
    by_class = replace(table, X=np.where(rng.random(table.X.shape) < rates[:, None], np.nan, table.X))
    only(cautions(by_class, CLASSES), "depends on the target (29 % in class case and 9 % in class control; p 0.001")
    y = rng.standard_normal(80)
    by_number = np.where(rng.random(table.X.shape) < (y > 0)[:, None] * 0.3, np.nan, table.X)
    only(cautions(replace(table, X=by_number, y=y), NUMBERS), "rank correlation with the target 0.", "indicator")
    assert cautions(replace(table, X=by_number), CLASSES) == ()


def test_unequal_and_small_classes(table):
    unequal = replace(table, y=np.repeat([0.0, 1.0], [62, 18]))
    only(cautions(unequal, CLASSES), "unequal", "18 samples of class 1", "62", "balanced")
    assert cautions(replace(table, y=np.repeat([0.0, 1.0], [60, 20])), CLASSES) == ()
    few = cautions(replace(table, y=np.repeat(["a", "b", "c"], [9, 8, 63])), CLASSES)
    assert "class a (9) and b (8)" in few[1]
    assert cautions(replace(table, y=np.repeat([0.0, 1.0], [62, 18])), NUMBERS) == ()


def test_a_batch_associated_with_the_class_is_confounded(table):
    batch = np.where(table.y == "case", "first", "second")
    batch[::10] = "first"
    only(cautions(replace(table, batch=batch), CLASSES), "confounded", "Cramér's V 0.9", "--batch", "36 of 80")


def test_a_batch_associated_with_a_numeric_target_is_confounded(table, rng):
    y = rng.standard_normal(80)
    confounded = replace(table, y=y, batch=np.where(y > 0.5, "first", "second"))
    only(cautions(confounded, NUMBERS), "confounded", "correlation ratio η", "--batch")


def test_features_that_determine_the_classes(table, rng):
    X = table.X.copy()
    X[:, 7] = np.where(table.y == "case", 3.0, -1.0) + rng.random(80)
    only(cautions(replace(table, X=X), CLASSES), "g7 separates the classes without an error", "--drop-columns")
    X[rng.random(X.shape) < 0.05] = np.nan
    only(cautions(replace(table, X=X), CLASSES), "g7 separates")
    X[0, 7] = -1.0  # one error
    assert cautions(replace(table, X=X), CLASSES) == ()


def test_codes_of_three_classes(rng):
    y = np.repeat(["a", "b", "c"], 20)
    X = rng.standard_normal((60, 120))
    X[:, 3], X[:, 5] = np.repeat([2, 0, 1], 20), -np.repeat([2.0, 0.0, 1.0], 20)
    table = Table(X, y, tuple(f"g{j}" for j in range(120)))
    only(cautions(table, CLASSES), "2 features separate the classes without an error (g3, g5)")
    X[:, 3] = X[:, 5] = np.repeat([0, 0, 1], 20)  # one class against the others
    sentences = cautions(table, CLASSES)
    assert not any("separate" in sentence for sentence in sentences)


def test_few_samples_are_separated_by_chance():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = Table(rng.standard_normal((8, 2000)), np.repeat(["a", "b"], 4), tuple(f"g{j}" for j in range(2000)))
        assert _cautions._separates_classes(table.X, table.y).any()
        assert not any("separate" in sentence for sentence in cautions(table, CLASSES))


def test_features_derived_from_a_numeric_target(table, rng):
    y, X = rng.standard_normal(80), table.X.copy()
    X[:, 2] = np.exp(-y)
    only(cautions(replace(table, X=X, y=y), NUMBERS), "g2 has a rank correlation above 0.99")
    X[:, 2] = y + 0.3 * rng.standard_normal(80)
    assert cautions(replace(table, X=X, y=y), NUMBERS) == ()


def test_one_value_of_the_target_far_from_all_others(table, rng):
    y = rng.standard_normal(80)
    y[5] = 9999.0
    samples = [f"S{i}" for i in range(80)]
    only(cautions(replace(table, y=y), NUMBERS, samples=samples), "99 % of the variance", "9999 of sample S5", "--na")
    for heavy in (np.exp(rng.standard_normal(80)), rng.standard_t(3, 80), np.full(80, 2.0)):
        assert cautions(replace(table, y=heavy), NUMBERS) == ()


def test_strength_of_association():
    y, batch = np.repeat([0, 1], 20), np.tile([0, 1], 20)
    assert _cautions.cramers_v(y, y) == pytest.approx(1.0)
    assert _cautions.cramers_v(y, batch) == pytest.approx(0.0)
    # phi of the 2×2 table (15, 5; 5, 15)
    mixed = np.repeat([0, 1, 0, 1], [15, 5, 5, 15])
    assert _cautions.cramers_v(y, mixed) == pytest.approx(0.5)
    assert _cautions.correlation_ratio(y.astype(float), y) == pytest.approx(1.0)
    assert _cautions.correlation_ratio(y.astype(float), mixed) == pytest.approx(0.5)
    assert _cautions.correlation_ratio(np.ones(40), y) == 0.0


def test_chance_association_in_a_small_table_is_not_confounding():
    X = np.random.default_rng(0).standard_normal((12, 10))
    few = Table(X, np.repeat([0, 1], 6), tuple("abcdefghij"), batch=np.array([0] * 10 + [1] * 2))
    assert _cautions.cramers_v(few.y, few.batch) > _cautions.CONFOUNDED
    assert not [c for c in cautions(few, CLASSES) if "confounded" in c]


def test_copies_of_rows(table):
    X = table.X.copy()
    X[:3] = X[10:13]
    only(cautions(replace(table, X=X), CLASSES), "3 samples are exact copies", "p-values too small", "--groups")
    X[:3] = X[50:53]
    only(cautions(replace(table, X=X), CLASSES), "6 samples", "not its target")
    X = table.X.copy()
    X[0] = X[1]
    only(cautions(replace(table, X=X), CLASSES), "1 sample is an exact copy")
    X[0, 0], X[1, 0] = 0.0, -0.0
    only(cautions(replace(table, X=X), CLASSES), "1 sample is an exact copy")


def test_samples_measured_twice_are_copies(table):
    twice = replace(table, X=np.repeat(table.X[:40], 2, axis=0), y=np.repeat(table.y[:40], 2))
    (sentence,) = [c for c in cautions(twice, CLASSES) if "copies" in c]
    assert "40 samples are exact copies" in sentence
    assert "p-values too small" in sentence


def test_equal_rows_of_few_coarse_features_raise_no_caution(table, rng):
    X = rng.integers(0, 3, (80, 5)).astype(float)
    assert cautions(replace(table, X=X), CLASSES) == ()


def test_near_copies_are_found_unless_groups_are_known_or_all_are_alike(table, rng):
    X = table.X.copy()
    X[:4] = X[10:14] + 0.01 * rng.standard_normal((4, 120))
    near = replace(table, X=X)
    only(cautions(near, CLASSES), "8 samples are nearly copies", "--groups")
    assert cautions(replace(near, groups=np.arange(80)), CLASSES) == ()
    # smooth spectra of three substances: every sample has a close neighbour
    spectra = rng.random((80, 2)) @ rng.random((2, 120)) + 1e-6 * rng.random((80, 120))
    assert cautions(replace(table, X=spectra), CLASSES) == ()


@pytest.mark.parametrize("pattern", ["D{0}_{1}", "patient{0}-rep{1}", "P{0}.visit{1}", "TB-{0} t{1}"])
def test_sample_names_with_repetition_numbers_are_donors(table, pattern):
    names = [pattern.format(donor, time) for donor in range(40) for time in (1, 2)]
    only(cautions(table, CLASSES, samples=names), "Donors seem to repeat", "80 samples", "--groups")
    assert cautions(replace(table, groups=np.arange(80)), CLASSES, samples=names) == ()


@pytest.mark.parametrize(
    "names",
    [
        [f"sample_{j}" for j in range(80)],
        [f"GSM{484368 + j}" for j in range(80)],
        [f"TCGA-A1-{1000 + j}-01" for j in range(80)],
        [f"plate{j // 40}_{j % 40}" for j in range(80)],
        [f"patient_{j}" for j in range(80)],
        [f"{j}" for j in range(80)],
        ["S1_1", "S1_2", *(f"S{j}" for j in range(78))],
    ],
)
def test_numbered_sample_names_raise_no_caution(table, names):
    assert cautions(table, CLASSES, samples=names) == ()


def test_constant_copied_and_tied_columns(table, rng):
    X = table.X.copy()
    X[:, 3] = 7.0
    X[:, 5] = X[:, 6] = X[:, 7]
    constant, copies = cautions(replace(table, X=X), CLASSES)
    assert "1 feature is constant" in constant
    assert "2 features are exact copies" in copies
    X = np.where(rng.random((80, 120)) < 0.7, 0.0, rng.random((80, 120)))
    only(cautions(replace(table, X=X), CLASSES), "more than half of the samples", "% of all values are zero")
    # genotypes have most samples at one value, as they should
    X = rng.choice([0.0, 1.0, 2.0], (80, 120), p=[0.7, 0.2, 0.1])
    assert cautions(replace(table, X=X), CLASSES) == ()
    only(cautions(replace(table, X=np.ones((80, 4))), CLASSES), "4 features are constant")


def test_significant_pairs_of_correlated_features_may_be_echoes(rng):
    X = rng.standard_normal((400, 10))
    for i, j in ((0, 1), (2, 3), (4, 5), (6, 7)):
        X[:, j] = 0.5 * X[:, i] + X[:, j]
    pairs = np.array(
        [(0, 1, 0.01), (0, 9, 0.01), (2, 3, 0.01), (4, 5, 0.2)], dtype=[("i", int), ("j", int), ("p_corrected", float)]
    )
    table = Table(X, X[:, 0], tuple("abcdefghij"))
    (sentence,) = check_pairs(table, pairs)
    assert re.search(r"correlated: a and b \(0\.\d\d\) and c and d \(0\.\d\d\)\. Such a pair may be the echo", sentence)
    pairs = np.array([(i, i + 1, 0.01) for i in (0, 2, 4, 6)], dtype=pairs.dtype)
    assert "e and f (0." in (sentence := next(check_pairs(table, pairs)))
    assert "and 1 other pairs." in sentence
    assert not list(check_pairs(replace(table, nominal=(0,)), pairs[:1]))
    assert not list(check_pairs(table, None))


@pytest.mark.slow
def test_echoes_of_a_hidden_cause_get_the_caution():
    """Two proxies of z among 50 features, y = z² + noise: most pairs that are called get the caution."""
    n_called, n_cautioned = 0, 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X, z = rng.standard_normal((600, 50)), rng.standard_normal(600)
        X[:, :2] = np.sqrt(0.3) * z[:, None] + np.sqrt(0.7) * X[:, :2]
        y = (z**2 - 1) / np.sqrt(2) + 0.5 * rng.standard_normal(600)
        pairs = InteractionScan().fit(X, y).pairs_
        called = bool(((pairs["i"] == 0) & (pairs["j"] == 1) & (pairs["p_corrected"] <= 0.05)).any())
        n_called += called
        sentences = check_pairs(Table(X, y, tuple(f"g{j}" for j in range(50))), pairs)
        n_cautioned += called and any("g0 and g1" in sentence for sentence in sentences)
    assert n_called >= 4
    assert n_cautioned >= 0.9 * n_called


def test_many_weak_effects_are_no_absence_of_signal():
    everything = np.array([0.4, 0.5, 0.3, 0.6, 0.5])
    nothing = Accuracy("R²", np.zeros(5), everything, 0.0, np.zeros(5, dtype=int))
    only(
        list(_cautions.check_weak_effects(nothing)),
        "All features together predict the target (R² 0.46 ± 0.11)",
        "--top",
    )
    assert not list(_cautions.check_weak_effects(replace(nothing, everything=everything - 0.3)))
    assert not list(_cautions.check_weak_effects(replace(nothing, everything=everything[:2])))
    assert not list(_cautions.check_weak_effects(None))


def test_results_cannot_be_changed():
    pair = Pair("a", "b", 0, 1, 3.0, 0.01, 0.1)
    with pytest.raises(FrozenInstanceError):
        pair.p = 0.0


def test_limits_in_the_documentation_are_those_of_the_code():
    text = (Path(__file__).parents[2] / "docs" / "howto" / "read_report.md").read_text()
    assert f"fewer than {_cautions.FEW_SAMPLES} samples;" in text
    assert f"at least {_cautions.CONFOUNDED}, with a permutation p of at most {_cautions.CONFOUNDED_P} |" in text
    assert f"above {_cautions.COPY}," in text
    assert _cautions.UNEQUAL == 0.5
    assert "less than half of an equal share" in text


@pytest.mark.data
def test_the_batch_of_the_tuberculosis_series_is_confounded(benchmark_set):
    sentences = cautions(read(benchmark_set("tb_gse19491_ltbi").fid.name), CLASSES)
    assert [c for c in sentences if "batch is confounded" in c and "--batch" in c]
    # the same controls are in two of its sub-series
    assert [c for c in sentences if "24 samples are nearly copies" in c]


@pytest.mark.data
def test_repeated_donors_without_telling_names_are_not_detected(benchmark_set):
    series = read(benchmark_set("tb_gse107993_ltbi").fid.name)
    assert len(np.unique(series.groups)) < len(series.y) / 2
    assert cautions(replace(series, groups=None), CLASSES) == ()


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("colon", "classification", ["9 features are exact copies"]),
        ("allaml", "classification", []),
        ("prostate_ge", "classification", []),
        ("tox_171", "classification", []),
        ("lung_gordon", "classification", ["unequal"]),
        ("madelon", "classification", []),
        ("gametes_2way_1000", "classification", []),
        ("tb_gambia_ord", "classification", []),
        ("somascan_sex", "classification", []),
        ("riboflavin", "regression", []),
        ("friedman_c0_250_50", "regression", []),
        ("pbmc68k", "classification", ["unequal", "Fewer than 10", "more than half"]),
    ],
)
def test_no_false_alarms_on_real_tables(benchmark_set, name, kind, expected):
    sentences = cautions(read(benchmark_set(name).fid.name), kind)
    assert len(sentences) == len(expected)
    assert all(word in caution for word, caution in zip(expected, sentences, strict=True))


def test_negative_values_of_which_logarithms_are_taken(tmp_path, rng):
    values = rng.standard_normal((30, 20)) + 1.0
    for name, X in (("logs", values), ("counts", np.abs(values).round())):
        lines = [",".join([*(f"g{j}" for j in range(20)), "y"])]
        lines += [",".join(map(str, [*row.tolist(), "ab"[i % 2]])) for i, row in enumerate(X)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    table = read(tmp_path / "logs.csv", target="y", log2=True)
    assert table.negative == np.mean(values < 0)
    (caution,) = [c for c in cautions(table, "classification") if "logarithm" in c]
    assert caution.startswith(f"{table.negative:.0%} of the values are negative, and have no logarithm")
    for table in (
        read(tmp_path / "counts.csv", target="y", log2=True),  # zeros are common in counts
        read(tmp_path / "logs.csv", target="y"),
    ):
        assert not [c for c in cautions(table, "classification") if "logarithm" in c]


def test_numbers_that_may_stand_for_missing_values(table):
    X = table.X.copy()
    X[3, :5] = -999.0
    only(cautions(replace(table, X=X), CLASSES), "The value -999 occurs 5 times, in 5 features", "--na=-999")
    X = table.X.copy()
    X[3, 0] = -999.0  # one value may be an error of measurement, which ranks make harmless
    assert cautions(replace(table, X=X), CLASSES) == ()
    X = np.round(100.0 * table.X)
    X[:2, 0] = -9.0  # other values are below and above
    assert cautions(replace(table, X=X), CLASSES) == ()
