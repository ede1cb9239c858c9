import io

import numpy as np
import pandas as pd
import pytest

from randsel import InteractionScan, RandSel, datasets, plots
from randsel._utils import text as _text


@pytest.fixture(scope="module")
def path():
    X, y, _ = datasets.make_xor(120, 15, random_state=0)
    return RandSel().fit(X, y).path_


def test_culling_path_draws_every_feature_and_names_the_highlighted(path):
    figure = plots.culling_path(path, highlight=np.array([0, 1]), names=[f"gene {j}" for j in range(15)], title="XOR")
    top, bottom, _ = figure.axes
    assert {text.get_text() for text in top.texts} == {"gene 0", "gene 1"}
    assert len(top.collections[0].get_segments()) == 13
    alignment = bottom.lines[0].get_ydata()
    assert list(alignment) == [r.alignment for r in path.rounds]
    red = top.lines[0]
    assert red.get_color() == plots.RED
    assert {line.get_ydata()[-1] for line in top.lines[:2]} == set(path.last_values("contributions", 15)[:2])
    figure.savefig(io.BytesIO(), format="png")


def test_the_errors_of_the_rounds_mark_the_number_of_features_they_choose(path):
    *_, axes = plots.culling_path(path).axes
    limit, curve, chosen = axes.lines[:3]
    smallest = int(np.argmin(path.errors))
    assert limit.get_ydata()[0] == path.errors[smallest] + path.standard_errors[smallest]
    assert curve.get_ydata()[path.best] <= limit.get_ydata()[0] < curve.get_ydata()[path.best + 1 :].min(initial=np.inf)
    np.testing.assert_array_equal(curve.get_ydata(), path.errors)
    assert chosen.get_xdata()[0] == path.best
    assert chosen.get_label() == f"{len(path.rounds[path.best].features)} chosen"
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == (path.errors + path.standard_errors).max()


def test_a_path_without_errors_has_no_panel_for_them():
    X, y, _ = datasets.make_xor(60, 6, random_state=0)
    path = RandSel(estimator="bootstrap", n_bootstraps=50, random_state=0).fit(X, y).path_
    assert [axes.get_ylabel() for axes in plots.culling_path(path).axes] == ["contribution", "alignment"]


def test_the_best_round_is_highlighted_by_default(path):
    assert {text.get_text() for text in plots.culling_path(path).axes[0].texts} == {"0", "1"}
    assert not plots.culling_path(path, highlight=np.array([], dtype=int)).axes[0].texts


def test_names_of_a_selector_and_a_mask_of_highlights():
    X, y, _ = datasets.make_xor(120, 6, random_state=0)
    selector = RandSel().fit(pd.DataFrame(X, columns=list("abcdef")), y)
    figure = plots.culling_path(selector, highlight=selector.support_)
    assert {text.get_text() for text in figure.axes[0].texts} == {"a", "b"}
    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    assert heights[1] > heights[0]


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"Drawing needs no_such_package.*pip install no_such_package"):
        _text.optional("no_such_package.part", extra="plot", purpose="Drawing")


@pytest.fixture(scope="module")
def scanned():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 12))
    X[:, 4] = rng.integers(0, 3, 150)
    y = np.where((X[:, 4] == 1) ^ (X[:, 2] > 0), "case", "control")
    return X, y, InteractionScan().fit(X, y)


def test_heat_map_shows_every_pair_of_the_first_features(scanned):
    _, _, scan = scanned
    figure = plots.interaction_heatmap(scan, names=[f"g{j}" for j in range(12)])
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"g{j}" for j in scan.top_]
    shown = axes.images[0].get_array()
    assert np.allclose(shown, -np.log10(scan.top_pvalues_))
    assert np.array_equal(shown, shown.T)
    assert {*scan.top_[:2]} == {2, 4}
    figure.savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("kind", ["classes", "numbers", "outputs"])
def test_panels_show_the_best_pairs_by_the_target(scanned, kind):
    X, y, scan = scanned
    target = {"classes": y, "numbers": X[:, 0], "outputs": X[:, :2]}[kind]
    figure = plots.pair_panels(X, target, scan, count=4)
    panels = [ax for ax in figure.axes if ax.get_xlabel()]
    assert len(panels) == 4
    assert {panels[0].get_xlabel(), panels[0].get_ylabel()} == {"2", "4"}
    drawn = np.concatenate([points.get_offsets() for points in panels[0].collections])
    assert len(drawn) == 150
    if kind == "classes":
        assert len(np.unique(panels[0].collections[0].get_facecolors(), axis=0)) == 2
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["case", "control"]
    # continuous features are where they are, discrete ones close to their level
    continuous = 0 if panels[0].get_xlabel() == "2" else 1
    assert np.allclose(np.sort(drawn[:, continuous]), np.sort(X[:, 2]))
    assert np.abs(np.sort(drawn[:, 1 - continuous]) - np.sort(X[:, 4])).max() <= 0.15
    figure.savefig(io.BytesIO(), format="png")


def test_kernel_weights_draw_every_run_and_class():
    weights = np.random.default_rng(0).dirichlet(np.ones(4), (5, 3))
    figure = plots.kernel_weights(np.array([16, 8, 4, 2]), weights, classes=["a", "b", "c"], title="weights")
    top, bottom = figure.axes[:2]
    np.testing.assert_allclose(top.lines[5].get_ydata(), weights.mean(axis=(0, 1)))
    np.testing.assert_allclose(bottom.images[0].get_array(), weights.mean(axis=0))
    assert [label.get_text() for label in bottom.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in bottom.get_xticklabels()] == ["16", "8", "4", "2"]
    figure.savefig(io.BytesIO(), format="png")


def test_survival_panels_split_at_the_median_and_count_who_is_at_risk():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(40)
    y = np.zeros(40, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = np.arange(40) % 3 > 0, 10.0 * rng.exponential(np.exp(-values))
    missing = np.where(np.arange(40) < 10, np.nan, values)
    scores = {"a$b": values, "high": values > 1.0, "missing": missing, "two": values > 0, "constant": np.ones(40)}
    figure = plots.survival_panels(y, scores, labels=("below", "above"), title="Survival")
    first, second, third, _, constant, empty = figure.axes
    assert first.get_title("left") == "a$b"
    assert not empty.axison
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["below", "above"]
    assert [text.get_text() for text in first.texts[:: len(first.texts) // 2]] == ["20", "20"]
    assert int(second.texts[-len(second.texts) // 2].get_text()) == (values > 1.0).sum()
    assert [text.get_text() for text in third.texts[:: len(third.texts) // 2]] == ["15", "15"]
    assert len(constant.get_legend().get_texts()) == 1
    steps = [line for line in first.lines if line.get_drawstyle() == "steps-post"]
    assert all(line.get_ydata()[0] == 1.0 and (np.diff(line.get_ydata()) <= 0.0).all() for line in steps)
    with pytest.raises(ValueError, match="needs events and times"):
        plots.survival_panels(values, {"a": values})
