import io

import numpy as np
import pandas as pd
import pytest

from randsel import RandSel, _optional, datasets, plots


@pytest.fixture(scope="module")
def path():
    X, y, _ = datasets.make_xor(120, 15, random_state=0)
    return RandSel().fit(X, y).path_


def test_culling_path_draws_every_feature_and_names_the_highlighted(path):
    figure = plots.culling_path(path, highlight=np.array([0, 1]), names=[f"gene {j}" for j in range(15)], title="XOR")
    top, bottom = figure.axes
    assert {text.get_text() for text in top.texts} == {"gene 0", "gene 1"}
    assert len(top.collections[0].get_segments()) == 13
    alignment = bottom.lines[0].get_ydata()
    assert list(alignment) == [r.alignment for r in path.rounds]
    red = top.lines[0]
    assert red.get_color() == plots.RED
    assert {line.get_ydata()[-1] for line in top.lines[:2]} == set(path.rounds[-1].contributions)
    figure.savefig(io.BytesIO(), format="png")


def test_the_best_round_is_highlighted_unless_told(path):
    assert {text.get_text() for text in plots.culling_path(path).axes[0].texts} == {"0", "1"}
    assert not plots.culling_path(path, highlight=np.array([], dtype=int)).axes[0].texts


def test_a_selector_brings_its_names_and_a_mask_highlights():
    X, y, _ = datasets.make_xor(120, 6, random_state=0)
    selector = RandSel().fit(pd.DataFrame(X, columns=list("abcdef")), y)
    figure = plots.culling_path(selector, highlight=selector.support_)
    assert {text.get_text() for text in figure.axes[0].texts} == {"a", "b"}
    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    assert heights[1] > heights[0]


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"Drawing needs no_such_package.*pip install 'randsel\[plot\]'"):
        _optional.optional("no_such_package.part", extra="plot", purpose="Drawing")
