import io
import itertools

import numpy as np
import pandas as pd
import pytest

from randsel import InteractionScan, RandSel, datasets, plots
from randsel._utils import text as _text
from randsel.plots._style import spread_labels, write_name


@pytest.fixture(scope="module")
def path():
    X, y, _ = datasets.make_xor(120, 15, random_state=0)
    return RandSel().fit(X, y).path_


def test_culling_path_draws_every_feature_and_names_the_highlighted(path):
    panels = plots.culling_path(path, highlight=np.array([0, 1]), names=[f"gene {j}" for j in range(15)], title="XOR")
    top, bottom, _ = panels
    assert {text.get_text() for text in top.texts} == {"gene 0", "gene 1"}
    assert len(top.collections[0].get_segments()) == 13
    alignment = bottom.lines[0].get_ydata()
    assert list(alignment) == [r.alignment for r in path.rounds]
    red = [line for line in top.lines if line.get_color() == plots.RED][:2]
    assert {line.get_ydata()[-1] for line in red} == set(path.last_values("contributions", 15)[:2])
    plots.figure_of(panels).savefig(io.BytesIO(), format="png")


def test_the_errors_of_the_rounds_mark_the_number_of_features_they_choose(path):
    *_, axes = plots.culling_path(path)
    limit, curve, chosen = axes.lines[:3]
    smallest = int(np.argmin(path.errors))
    assert limit.get_ydata()[0] == path.errors[smallest] + path.standard_errors[smallest]
    assert curve.get_ydata()[path.best] <= limit.get_ydata()[0] < curve.get_ydata()[path.best + 1 :].min(initial=np.inf)
    np.testing.assert_array_equal(curve.get_ydata(), path.errors)
    assert chosen.get_xdata()[0] == path.best
    assert chosen.get_label() == f"fewest below it: {len(path.rounds[path.best].features)}"
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == (path.errors + path.standard_errors).max()


def test_a_path_without_errors_has_no_panel_for_them():
    X, y, _ = datasets.make_xor(60, 6, random_state=0)
    path = RandSel(estimator="bootstrap", n_bootstraps=50, random_state=0).fit(X, y).path_
    assert [axes.get_ylabel() for axes in plots.culling_path(path)] == ["contribution", "alignment"]


def test_what_is_selected_is_highlighted_by_default(path):
    assert {text.get_text() for text in plots.culling_path(path)[0].texts} == {"0", "1"}
    empty = plots.culling_path(path, highlight=np.array([], dtype=int))[0]
    assert not empty.texts
    assert [text.get_text() for text in empty.get_legend().get_texts()] == ["all features"]
    X, y, _ = datasets.make_xor(120, 15, random_state=0)
    selector = RandSel(12).fit(X, y)
    top = plots.culling_path(selector)[0]
    assert {text.get_text() for text in top.texts} == {str(j) for j in selector.order_[:10]}
    assert sum(line.get_color() == plots.RED for line in top.lines) == 12 + 1  # and the entry of the legend
    assert top.get_legend().get_texts()[0].get_text() == "12 selected, the first 10 named"


def test_the_first_the_chosen_and_the_last_round_have_labels_that_do_not_touch(path):
    for size in ((8.0, 6.5), (3.7, 6.5)):
        axes = plots.culling_path(path, size=size)[-1]
        ticks, labels = axes.get_xticks().tolist(), axes.get_xticklabels()
        assert {0, path.best, len(path.rounds) - 1} <= set(ticks)
        assert path.best == len(path.rounds) - 2
        axes.figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in labels]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
        assert labels[ticks.index(path.best)].get_text() == str(len(path.best_round.features))
        assert labels[ticks.index(path.best)].get_color() == plots.RED


def test_names_of_lines_do_not_overlap():
    heights = spread_labels(np.array([0.1, 0.11, 0.12, 0.5, 0.98, 0.99]), 0.05, 0.02, 0.98)
    assert np.diff(heights).min() >= 0.05 - 1e-12
    assert heights[3] == 0.5
    assert heights[-1] <= 0.98
    crowded = spread_labels(np.full(40, 0.9), 0.05, 0.0, 1.0)
    assert np.allclose(crowded, np.linspace(0.0, 1.0, 40))


def test_names_of_a_selector_and_a_mask_of_highlights():
    X, y, _ = datasets.make_xor(120, 6, random_state=0)
    selector = RandSel().fit(pd.DataFrame(X, columns=list("abcdef")), y)
    top = plots.culling_path(selector, highlight=selector.support_)[0]
    assert {text.get_text() for text in top.texts} == {"a", "b"}
    heights = sorted(text.xy[1] for text in top.texts)
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
    axes = plots.interaction_heatmap(scan, names=[f"g{j}" for j in range(12)], ax=plots.new_figure(5, 4).subplots())
    red, green, blue, opacity = axes.images[0].get_cmap()(np.ma.masked)
    assert red == green == blue == 0.6
    assert opacity == 1.0
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"g{j}" for j in scan.top_]
    shown = axes.images[0].get_array()
    off_diagonal = ~np.eye(len(scan.top_), dtype=bool)
    assert np.allclose(shown[off_diagonal], -np.log10(scan.top_pvalues_)[off_diagonal])
    assert np.ma.getmaskarray(shown).diagonal().all()  # main effects do not take the colour scale
    assert {*scan.top_[:2]} == {2, 4}
    axes.figure.savefig(io.BytesIO(), format="png")


def test_pairs_of_a_selector_without_pairs_are_refused():
    X, y, _ = datasets.make_xor(60, 4, random_state=0)
    for selector in (RandSel().fit(X, y), InteractionScan()):
        with pytest.raises(TypeError, match="scan must be a fitted InteractionScan, not "):
            plots.pair_panels(X, y, selector)


@pytest.mark.parametrize("kind", ["classes", "numbers", "outputs"])
def test_panels_show_the_best_pairs_by_the_target(scanned, kind):
    X, y, scan = scanned
    target = {"classes": y, "numbers": X[:, 0], "outputs": X[:, :2]}[kind]
    panels = plots.pair_panels(X, target, scan, count=4)
    figure = plots.figure_of(panels)
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
    panels = plots.kernel_weights(np.array([16, 8, 4, 2]), weights, classes=["a", "b", "c"], title="weights")
    top, bottom = panels
    np.testing.assert_allclose(top.lines[5].get_ydata(), weights.mean(axis=(0, 1)))
    np.testing.assert_allclose(bottom.images[0].get_array(), weights.mean(axis=0))
    assert [label.get_text() for label in bottom.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in bottom.get_xticklabels()] == ["16", "8", "4", "2"]
    plots.figure_of(panels).savefig(io.BytesIO(), format="png")


def test_survival_panels_split_at_the_median_and_count_who_is_at_risk():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(40)
    y = np.zeros(40, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = np.arange(40) % 3 > 0, 10.0 * rng.exponential(np.exp(-values))
    missing = np.where(np.arange(40) < 10, np.nan, values)
    scores = {"a$b": values, "high": values > 1.0, "missing": missing, "two": values > 0, "constant": np.ones(40)}
    panels = plots.survival_panels(y, scores, labels=("below", "above"), title="Survival")
    first, second, third, _, constant = panels
    *_, empty = plots.figure_of(panels).axes
    assert first.get_title("left") == "a$b"
    assert not empty.axison
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["below", "above"]
    assert [text.get_text() for text in first.texts[:: len(first.texts) // 2]] == ["20", "20"]
    assert int(second.texts[-len(second.texts) // 2].get_text()) == (values > 1.0).sum()
    assert [text.get_text() for text in third.texts[:: len(third.texts) // 2]] == ["15", "15"]
    assert len(constant.get_legend().get_texts()) == 1
    steps = [line for line in first.lines if line.get_drawstyle() == "steps-post"]
    assert all((np.diff(line.get_ydata()) <= 0.0).all() for line in steps)
    assert [line.get_ydata()[0] for line in steps[::2]] == [1.0, 1.0]
    with pytest.raises(ValueError, match="needs events and times"):
        plots.survival_panels(values, {"a": values})
    frame = pd.DataFrame({"one": values, "two": values})
    assert [axes.get_title("left") for axes in plots.survival_panels(y, frame)] == ["one", "two"]


def test_survival_curves_are_dotted_where_few_are_at_risk():
    y = np.zeros(24, dtype=[("event", bool), ("months", float)])
    y["event"], y["months"] = True, np.arange(1, 25)
    values = np.arange(24) % 2 == 0  # 12 samples each; 5 of the high ones are at risk at 15, 4 at 17
    (axes,) = plots.survival_panels(y, {"": values})
    assert axes.get_xlabel() == "months, and samples at risk"
    assert axes.get_ylabel() == "fraction without event"
    solid, dotted = [line for line in axes.lines if line.get_drawstyle() == "steps-post"][2:]
    assert solid.get_linestyle() == "-"
    assert dotted.get_linestyle() != "-"
    assert solid.get_xdata()[-1] == dotted.get_xdata()[0] == 15
    np.testing.assert_allclose([solid.get_ydata()[-1], dotted.get_ydata()[-1]], [4 / 12, 0.0])
    few = plots.survival_panels(y[:8], {"": values[:8]}, time="days since $x$")[0]  # 4 samples each
    assert few.get_xlabel() == "days since $x$, and samples at risk"
    assert all(
        len(line.get_xdata()) == 1 for line in few.lines if line.get_linestyle() == "-" and line.get_label()[0] != "_"
    )


# ---------------------------------------------------------------- one panel: `ax` in, axes out


@pytest.fixture
def panel():
    return plots.new_figure(4.0, 3.0).subplots()


def test_without_axes_a_new_figure_of_pyplot_is_drawn_on():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    axes = plots.volcano(pd.Series([0.5, -1.0], index=["a", "b"]), [0.1, 0.01], selected=[True, False])
    assert axes.figure is pyplot.gcf()
    assert [text.get_text() for text in axes.texts] == ["a"]
    pyplot.close(axes.figure)


def test_long_names_are_broken_into_lines_and_then_cut():
    assert write_name("short") == "short"
    assert write_name("N-acetylglucosamine/N-acetylgalactosamine").replace("\n", "") == (
        "N-acetylglucosamine/N-acetylgalactosamine"
    )
    assert write_name("x" * 300).endswith("…")
    assert len(write_name("x" * 300).split("\n")) == 3
    assert write_name("") == ""


@pytest.mark.parametrize("categories", [True, False])
def test_a_heat_map_orders_samples_by_target(panel, categories):
    rng = np.random.default_rng(0)
    y = rng.permutation(40) % 2 if categories else rng.standard_normal(40)
    X = pd.DataFrame({"up": y + 0.1 * rng.standard_normal(40), "constant": np.ones(40), "other": rng.random(40)})
    X.loc[3, "other"] = np.nan
    axes = plots.feature_heatmap(X, y, features=np.array([True, True, False]), categories=categories, ax=panel)
    assert axes is panel
    assert [label.get_text() for label in axes.get_yticklabels()] == ["up", "constant"]
    shown, bar = (image.get_array() for image in axes.images)
    order = np.argsort(y, kind="stable")
    limited = X["up"].clip(*X["up"].quantile([0.05, 0.95], interpolation="nearest"))
    standard = ((X["up"] - limited.mean()) / limited.std(ddof=0)).to_numpy()
    assert np.allclose(np.sort(shown[0]), np.sort(standard))
    if categories:
        # within a class, samples rise with the feature
        assert (np.diff(shown[0][:20]) >= 0).all()
        assert len(np.unique(bar.reshape(40, 4), axis=0)) == 2
    else:
        assert np.allclose(shown[0], standard[order])
    assert np.allclose(shown[1], 0.0)
    axes.figure.savefig(io.BytesIO(), format="png")


def test_a_heat_map_names_the_colours_of_the_classes(panel):
    X, y = np.random.default_rng(0).standard_normal((30, 2)), np.arange(30) % 3
    legend = plots.feature_heatmap(X, np.array(["a", "b", "$c$"])[y], ax=panel).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["$c$", "a", "b"]
    assert [handle.get_color() for handle in legend.legend_handles] == [*plots.CLASS_COLOURS[:3]]
    panel.figure.draw_without_rendering()
    assert legend.get_window_extent().y0 >= panel.get_window_extent().y1
    many = np.array([f"class {i}" for i in range(15)]).repeat(2)  # their colours repeat
    for y_shown, options in ((y, {"labels": ()}), (X[:, 0], {"categories": False}), (many, {})):
        axes = plots.feature_heatmap(X, y_shown, ax=plots.new_figure(4, 3).subplots(), **options)
        assert axes.get_legend() is None


def test_extreme_values_do_not_make_others_look_alike(panel):
    X = np.column_stack([np.r_[np.arange(39.0), 1e6], np.r_[np.zeros(38), 1.0, 5.0]])
    skewed, rare = plots.feature_heatmap(X, np.arange(40) % 2, ax=panel).images[0].get_array()
    assert np.sort(skewed)[-2] - np.sort(skewed)[0] > 2.5
    assert np.allclose(np.sort(rare)[-1] - np.sort(rare)[0], 5.0 / X[:, 1].std())  # all others are equal


def test_a_heat_map_takes_the_features_of_a_selector(panel):
    X, y, _ = datasets.make_xor(120, 6, random_state=0)
    selector = RandSel(2).fit(pd.DataFrame(X, columns=list("abcdef")), y)
    axes = plots.feature_heatmap(X, y, features=selector, ax=panel)
    assert {label.get_text() for label in axes.get_yticklabels()} == {"a", "b"}
    every = plots.feature_heatmap(X[:, :3], y[:, None], ax=plots.new_figure(4, 3).subplots())
    assert [label.get_text() for label in every.get_yticklabels()] == ["0", "1", "2"]


def test_a_volcano_marks_what_is_selected_and_leaves_out_what_is_unknown(panel):
    effects = np.array([-2.0, 0.1, np.nan, 1.5, 1.6])
    axes = plots.volcano(effects, np.array([1e-8, 0.5, 1e-9, 1e-5, 1e-5]), selected=[0, 3, 4], limit=0.01, ax=panel)
    grey, red = axes.collections
    assert len(grey.get_offsets()) == 1
    assert red.get_offsets()[:, 0].tolist() == [-2.0, 1.5, 1.6]
    # on the usual side, the name of 3 would cover the point of 4
    assert [(text.get_text(), text.get_ha()) for text in axes.texts] == [("0", "right"), ("3", "right"), ("4", "left")]


def test_names_of_a_volcano_keep_their_distance():
    rng = np.random.default_rng(0)
    axes = plots.new_figure(3.7, 3.4).subplots()
    names = [f"feature {k}" for k in range(10)]
    plots.volcano(
        rng.uniform(0.9, 1.1, 10), 10.0 ** -rng.uniform(3, 9, 10), selected=np.arange(10), names=names, ax=axes
    )
    axes.figure.savefig(io.BytesIO(), format="png")
    extents = [text.get_window_extent() for text in axes.texts]
    assert len(extents) > 5
    for i, extent in enumerate(extents):
        for other in extents[:i]:
            is_beside = extent.x1 < other.x0 or other.x1 < extent.x0
            gap = max(extent.y0, other.y0) - min(extent.y1, other.y1)
            assert is_beside or gap > 0.2 * extent.height


@pytest.mark.parametrize("width", [3.8, 7.0])
@pytest.mark.parametrize("n_characters", [3, 15, 40])
def test_names_of_a_volcano_stay_within_the_axes(width, n_characters):
    effects = np.array([-2.0, -1.0, -0.01, 0.02, 1.0, 3.0])
    axes = plots.new_figure(width, 3.4).subplots()
    names = [f"{k}{'m' * (n_characters - 1)}" for k in range(6)]
    plots.volcano(effects, 10.0 ** -np.arange(1, 7), selected=np.arange(6), names=names, ax=axes)
    axes.figure.savefig(io.BytesIO(), format="png")
    box = axes.get_window_extent()
    assert [text.get_text()[0] for text in axes.texts] == list("012345")
    for text in axes.texts:
        extent = text.get_window_extent()
        assert box.x0 <= extent.x0 <= extent.x1 <= box.x1


def test_genotypes_are_bars_of_shares(panel):
    values = np.array([0, 0, 1, 2, 2, 2, 1, np.nan])
    axes = plots.feature_panel(values, np.array(list("aaaabbbb")), ax=panel)
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([0.5, 0.25, 0.25, 0.0, 1 / 3, 2 / 3])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
    assert axes.get_ylabel() == "share of the class"


def test_few_values_with_long_names_are_strips_of_dots(panel):
    values = np.array([0.0136, 0.0136, 0.0136, 0.15541, 1.7153, 1.8411, 11.0033, 0.0136])
    axes = plots.feature_panel(values, np.array(list("aaaabbbb")), labels=("a", "b"), ax=panel)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_a_target_of_numbers_is_named_and_few_levels_are_strips(panel):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(60)
    axes = plots.feature_panel(rng.integers(0, 3, 60), y, categories=False, target="yield $", ax=panel)
    assert axes.get_ylabel() == "yield $"
    strips = [line for line in axes.lines if line.get_marker() == "o"]
    assert sum(len(line.get_ydata()) for line in strips) == 60
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]
    scatter = plots.feature_panel(y, 2 * y, categories=False, ax=plots.new_figure(3, 3).subplots())
    assert np.allclose(scatter.lines[0].get_ydata(), 2 * y)


def test_a_feature_takes_the_names_of_its_series_and_of_the_classes(panel):
    rng = np.random.default_rng(0)
    gene, snp, dose = (
        pd.Series(rng.random(40), name="gene"),
        pd.Series(rng.integers(0, 3, 40), name="snp"),
        rng.random(40),
    )
    status = pd.Series(np.where(rng.random(40) < 0.5, "case", "control"), name="status")
    axes = plots.feature_panel(gene, status, ax=panel)
    assert ([label.get_text() for label in axes.get_xticklabels()], axes.get_ylabel()) == (["case", "control"], "gene")
    numbered = plots.feature_panel(gene, status, labels=(), ax=plots.new_figure(3, 3).subplots())
    assert [label.get_text() for label in numbered.get_xticklabels()] == ["1", "2"]
    bars = plots.feature_panel(snp, status, ax=plots.new_figure(3, 3).subplots())
    assert (bars.get_xlabel(), bars.get_ylabel()) == ("snp", "share of the class")
    for target, expected in ((pd.Series(dose, name="dose"), "dose"), (dose, "target")):
        scatter = plots.feature_panel(gene, target, categories=False, ax=plots.new_figure(3, 3).subplots())
        assert (scatter.get_xlabel(), scatter.get_ylabel()) == ("gene", expected)


def test_a_series_may_have_a_number_or_nothing_as_its_name():
    first, second = (pd.Series(np.random.default_rng(0).random(40), name=name) for name in (0, None))
    scatter = plots.feature_panel(first, second, categories=False, ax=plots.new_figure(3, 3).subplots())
    assert (scatter.get_xlabel(), scatter.get_ylabel()) == ("0", "target")
    pair = plots.pair_panel(first, second, first, categories=False, ax=plots.new_figure(3, 3).subplots())
    assert (pair.get_xlabel(), pair.get_ylabel()) == ("0", "")


def test_a_pair_takes_the_names_of_its_series(panel):
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((30, 2)), columns=["one", "two"])
    axes = plots.pair_panel(frame["one"], frame["two"], frame["one"], categories=False, ax=panel)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("one", "two")


# ---------------------------------------------------------------- scores and predictions


def test_a_comparison_has_a_panel_per_method():
    rows = [
        {
            "data": data,
            "method": method,
            "sizes": [1, 5, 50],
            "mean": [0.6, 0.8, 0.7],
            "standard_error": [0.1, 0.05, 0.1],
        }
        for data in ("one", "two")
        for method in ("a", "b", "c")
    ]
    assert [axes.get_title("left") for axes in plots.comparison(rows, title="both")] == ["a", "b", "c"] * 2
    first = plots.comparison(pd.DataFrame(rows[:3]))[0]
    assert len(first.lines) == 4  # all methods in grey, and its own
    band = first.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.5, 0.85))
    many = [dict(row, method=f"m{k}") for k, row in enumerate(rows[:3] * 2)]
    assert len(plots.comparison([row | {"data": "one"} for row in many])) == 6


def test_the_lines_of_a_comparison_are_explained():
    rows = [
        {"data": "one", "method": method, "sizes": [1, 5], "mean": [0.6, 0.8], "standard_error": [0.1, 0.1]}
        for method in ("a", "b")
    ]
    for methods, expected in (
        (rows, ["method of the panel", "± standard error", "other methods"]),
        (rows[:1], ["method of the panel", "± standard error"]),
    ):
        (legend,) = plots.comparison(methods)[0].figure.legends
        assert [entry.get_text() for entry in legend.get_texts()] == expected
        figure = legend.figure
        figure.draw_without_rendering()
        lowest = min(axes.get_tightbbox().y0 for axes in figure.axes if axes.axison)
        assert legend.get_window_extent().y1 <= lowest + 1.0  # below the names of the axes
        box = legend.get_window_extent()
        assert not any(box.overlaps(text.get_window_extent()) for text in figure.texts)
        colours = [handle.get_color() for handle in legend.legend_handles if hasattr(handle, "get_color")]
        assert len(set(colours)) == len(methods)


def test_the_scores_of_folds_are_drawn_in_rows(panel):
    folds = pd.DataFrame({"selected": [0.8, 0.9], "all features": [0.6, 0.5]})
    axes = plots.accuracy(folds, chance=0.5, highlight="selected", ax=panel)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["selected", "all features"]
    assert axes.lines[2].get_xdata()[0] == pytest.approx(0.85)


def test_panel_sizes_mark_the_sizes_that_are_chosen(panel):
    scores = np.array([[0.6, 0.8, np.nan], [0.7, 0.9, np.nan], [0.8, np.nan, np.nan]])
    marks = {"selected": 5, "one standard error": 1}
    axes = plots.panel_sizes([1, 5, 20], scores, marks=marks, chance=0.5, everything=0.7, ax=panel)
    (curve,) = (container.lines[0] for container in axes.containers)
    assert curve.get_xdata().tolist() == [1, 5]
    assert curve.get_ydata() == pytest.approx([0.7, 0.85])
    low, high = axes.containers[0].lines[2][0].get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * np.std([0.6, 0.7, 0.8], ddof=1) / np.sqrt(3))
    labels = {text.get_text() for text in axes.get_legend().get_texts()}
    assert labels == {"selected: 5", "one standard error: 1", "chance", "all features"}


def test_roc_curves_are_drawn_by_fold(panel):
    rng = np.random.default_rng(0)
    y, folds = np.arange(60) % 2, np.arange(60) // 20
    scores = y + rng.standard_normal(60)
    scores[0] = np.nan
    axes = plots.roc_curve(y, scores, folds=folds, positive="case", ax=panel)
    assert axes.get_legend().get_texts()[0].get_text().startswith("mean of 3 folds, AUC 0.")
    assert axes.get_ylabel() == "true positive rate (case)"
    one_class = plots.roc_curve(y, scores, folds=y, ax=plots.new_figure(3, 3).subplots())
    assert one_class.get_legend() is None


def test_confusions_are_counted_without_missing_predictions(panel):
    y, predicted = np.array([0, 0, 1, 1, 2]), np.array([0.0, 1.0, 1.0, np.nan, 2.0])
    axes = plots.confusion_matrix(y, predicted, labels=("a", "b", "a long label of a class"), ax=panel)
    assert [text.get_text() for text in axes.texts] == ["1", "1", "0", "0", "1", "0", "0", "0", "1"]
    assert axes.get_xticklabels()[0].get_rotation() == 90.0


def test_names_of_many_classes_do_not_cover_each_other():
    names = [f"CD{k}+/CD45RA+/CD25- Naive T cells" for k in range(10)]
    axes = plots.confusion_matrix(range(10), range(10), labels=names, ax=plots.new_figure(3.2, 3.0).subplots())
    axes.figure.savefig(io.BytesIO(), format="png")
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 0.5 for upper, lower in itertools.pairwise(boxes))


def test_predicted_numbers_against_true_ones(panel):
    axes = plots.predicted_values([1.0, 2.0, 3.0], [1.1, np.nan, 2.5], target="yield", ax=panel)
    assert axes.lines[0].get_xdata().tolist() == [1.0, 3.0]
    assert axes.lines[1].get_ydata().tolist() == [1.1, 2.5]
    nothing = plots.predicted_values([1.0], [np.nan], ax=plots.new_figure(3, 3).subplots())
    assert len(nothing.lines) == 1


def test_narrow_figures_break_long_lines_and_shorten_names():
    mark = {"fewest within one standard error of the best in cross-validation": 5}
    axes = plots.panel_sizes([1, 5], [[0.6, 0.8]], marks=mark, ax=plots.new_figure(3.7, 2.8).subplots())
    axes.figure.draw_without_rendering()
    legend, panel = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert legend.x1 <= panel.x1 + 5
    assert axes.get_legend().get_texts()[-1].get_text().replace("\n", " ") == f"{next(iter(mark))}: 5"
    X, name = np.random.default_rng(0).standard_normal((20, 2)), "mitochondrial ribosomal protein S14"
    for width, shown in ((3.7, "mitochondrial rib…"), (6.4, name)):
        axes = plots.feature_heatmap(X, np.arange(20) % 2, names=[name, "b"], ax=plots.new_figure(width, 2).subplots())
        assert [label.get_text() for label in axes.get_yticklabels()] == [shown, "b"]


def test_a_volcano_takes_a_fitted_selector_and_names_its_features(rng):
    X = rng.standard_normal((60, 5))
    selector = RandSel(1).fit(X, (X[:, 3] > 0) * 1)
    axes = plots.volcano(np.arange(5.0), np.full(5, 0.1), selected=selector, names=list("abcde"))
    assert [text.get_text() for text in axes.texts] == ["d"]


def test_panel_sizes_without_lines_have_no_legend():
    assert plots.panel_sizes([1, 2], [[0.5, 0.6]]).get_legend() is None


def test_the_order_of_arguments_of_pairs_is_named_without_the_data(rng):
    X = rng.standard_normal((40, 3))
    with pytest.raises(TypeError, match=r"must be a fitted InteractionScan, not ndarray: pair_panels\(X, y, scan\)\."):
        plots.pair_panels(None, X, X[:, 0])
