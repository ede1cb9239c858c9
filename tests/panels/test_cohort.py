"""Comparison of new values with the training values of a panel."""

import numpy as np
import pytest
from panel_tables import frame_of, make_panel, make_table

from randsel.panels import compare_features, warn_of_shifts
from randsel.panels._cohort import chance_of_outside, warn_of_absent


def new_values(panel, **columns):
    return panel.prepare({**frame_of(make_table(seed=1)), **columns}).values


def test_values_that_are_all_equal_are_reported_unless_training_had_as_many(panel):
    assert not list(warn_of_shifts(panel, new_values(panel)))
    (warning,) = warn_of_shifts(panel, new_values(panel, a=np.full(80, 0.1)))
    assert warning.startswith("All new samples have the same value of a, which varied in training")
    assert not list(warn_of_shifts(panel, new_values(panel, a=np.full(80, 0.1))[:4]))
    table = make_table()
    table.X[:, 0] = np.where(np.arange(80) == 3, 1.0, 0.0)  # 79 of 80 samples have 0
    rare = make_panel(table)
    assert not list(warn_of_shifts(rare, new_values(rare, a=np.zeros(80))))


def test_codes_of_categories_have_no_shift():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=80).astype(float)
    y = np.where((codes == 2) ^ (rng.random(80) < 0.1), "case", "control")
    X = np.column_stack([codes, rng.standard_normal(80)])
    table = make_table().__class__(X, y, ("colour", "n"), nominal=(0,), levels={"colour": ("blue", "green", "red")})
    panel = make_panel(table, keep=("colour",), top=1)
    values = np.where(rng.random((40, 1)) < 0.2, 0.0, 2.0)
    assert np.isnan(compare_features(panel, values)[0].shift)
    assert not list(warn_of_shifts(panel, values))


def test_shifts_are_given_where_most_training_values_are_equal():
    table = make_table()
    table.X[:, 0] = np.where(np.arange(80) % 10 == 3, 1.0, 0.0)  # the interquartile range is zero
    panel = make_panel(table)
    assert compare_features(panel, new_values(panel, a=np.zeros(80)))[0].shift == 0.0
    shift = compare_features(panel, new_values(panel, a=np.ones(80)))[0].shift
    np.testing.assert_allclose(shift, 1.0 / table.X[:, 0].std())


def test_training_samples_are_recognised_as_such(panel):
    table = make_table()
    for rows in (slice(None), slice(0, 10)):
        (warning,) = warn_of_shifts(panel, table.X[rows, :2])
        assert warning.startswith("The new values are those of training samples")
    # too few values to tell
    assert not list(warn_of_shifts(panel, np.vstack([table.X[:10, :2], make_table(seed=1).X[:, :2]])))
    table.X[::20, 0] = np.nan
    assert len(list(warn_of_shifts(panel, table.X[:, :2]))) == 1
    coarse = make_table()
    coarse.X[:, :2] = np.round(coarse.X[:, :2])
    assert not list(warn_of_shifts(make_panel(coarse), coarse.X[:, :2]))


def test_some_training_samples_among_others_are_named():
    table, new = make_table(), make_table(seed=1)
    panel = make_panel(table, keep=("a", "b", "c", "d"), top=4)
    names = [table.names.index(name) for name in panel.features_]
    values = np.vstack([table.X[:3], new.X[:20]])[:, names]
    ids = [f"p{i}" for i in range(23)]
    (warning,) = warn_of_shifts(panel, values, ids=ids)
    assert warning.startswith("3 new samples have the values of training samples: p0, p1, p2. How well")
    assert next(warn_of_shifts(panel, values)).startswith("3 new samples have the values of training samples: row 1, ")
    values[0, :] = np.nan  # nothing is known
    values[1, 0] += 0.1  # another sample
    assert next(warn_of_shifts(panel, values, ids=ids)).startswith(
        "1 new sample has the values of training samples: p2."
    )
    assert not list(warn_of_shifts(panel, values[3:]))


def test_negative_values_have_no_logarithm(panel):
    values = new_values(panel)
    (warning,) = warn_of_shifts(panel, values, log2_taken=True, negative=0.3)
    assert warning.startswith("30% of the new values are negative, and have no logarithm")
    assert "--transform none" in warning
    assert not list(warn_of_shifts(panel, values, log2_taken=True, negative=0.001))


@pytest.mark.parametrize(("n_outside", "n", "m"), [(1, 5, 4), (3, 5, 4), (2, 8, 20), (1, 1, 100)])
def test_the_chance_of_values_outside_a_range_agrees_with_simulation(n_outside, n, m):
    values = np.random.default_rng(0).random((20_000, n + m))
    training, new = values[:, n:], values[:, :n]
    is_outside = (new < training.min(axis=1, keepdims=True)) | (new > training.max(axis=1, keepdims=True))
    share = (is_outside.sum(axis=1) >= n_outside).mean()
    assert chance_of_outside(n_outside, n, m) == pytest.approx(share, abs=0.015)
    assert chance_of_outside(n_outside, n, 1) == 1.0


def test_few_values_outside_the_training_range_are_not_reported(panel):
    values, points = new_values(panel)[:20], panel.preparation.points[0]
    values[:3, 0] = points[-1] + 0.1  # 15 %, but samples of the same cohort would often have as many in one feature
    assert not [w for w in warn_of_shifts(panel, values) if "outside" in w]
    values[:8, 0] = points[-1] + 0.1
    assert [w for w in warn_of_shifts(panel, values) if "1 of 2 features lie outside the training range" in w]


def test_values_at_an_end_of_the_training_range_are_not_outside_up_to_rounding():
    """Such as the limit of detection, after a logarithm and its inverse."""
    table = make_table()
    table.X[:, 0] = np.maximum(table.X[:, 0], 0.3)
    panel = make_panel(table)
    values = new_values(panel, a=np.maximum(make_table(seed=1).X[:, 0], 0.3) - 1e-12)
    assert compare_features(panel, values)[0].outside < 0.1
    assert not [warning for warning in warn_of_shifts(panel, values) if "outside" in warning]


def test_remedies_in_python_are_no_options(panel):
    new = make_table(seed=1).X[:, :2]
    for values, remedy in ((3 * new + 100, "rescale=True uses ranks"), (np.exp2(new), "apply log2 to them first")):
        with pytest.warns(UserWarning, match=remedy) as caught:
            panel.predict(values)
        assert not [warning for warning in caught if "--" in str(warning.message)]


def test_one_sample_far_outside_the_training_range_is_reported(panel):
    values = new_values(panel)[:1]
    assert not [w for w in warn_of_shifts(panel, values) if "outside" in w]
    values[0] = 1e6
    assert [w for w in warn_of_shifts(panel, values) if "2 of 2 features lie outside the training range" in w]


def test_stand_ins_are_compared_with_their_training_values(panel):
    frame = frame_of(make_table(seed=1))
    del frame["a"]
    samples = panel.prepare(frame, allow_missing=True)
    assert not list(warn_of_shifts(*samples.compared(panel)))
    moved = panel.prepare({**frame, "copy": frame["copy"] + 5.0}, allow_missing=True)
    warnings = list(warn_of_shifts(*moved.compared(panel)))
    assert "The medians of 1 of 2 features differ" in warnings[0]
    assert ": copy (+" in warnings[0]
    assert np.isnan(moved.values[:, 0]).all()
    with (
        pytest.warns(UserWarning, match="copy replaces it"),
        pytest.warns(UserWarning, match="medians of 1 of 2 features differ"),
    ):
        panel.predict({**frame, "copy": frame["copy"] + 5.0}, allow_missing=True)


def test_absent_features_are_counted(panel):
    values = new_values(panel)
    assert not list(warn_of_absent(values))
    values[:, 1] = np.nan
    assert next(warn_of_absent(values)).startswith("1 of 2 features of the panel has no values")
    values[:, 0] = np.nan
    assert next(warn_of_absent(values)).startswith("No feature of the panel has values;")
