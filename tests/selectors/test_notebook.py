"""Fitted selectors in a notebook: data frames with names, and HTML with a verdict."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import NotFittedError

from randsel import InteractionScan, RandSel, RandSelCV, datasets


@pytest.fixture(scope="module")
def data():
    X, y, _ = datasets.make_xor(150, 10, random_state=0)
    return pd.DataFrame(X, columns=[f"<b>g{j}</b>" for j in range(10)]), y


def test_the_ranking_as_a_frame(data):
    X, y = data
    selector = RandSel().fit(X, y)
    frame = selector.to_frame()
    assert frame["feature"].tolist() == [X.columns[j] for j in selector.order_]
    assert frame["selected"].sum() == selector.n_features_
    assert np.array_equal(frame["contribution"], selector.contributions_[selector.order_])
    assert np.array_equal(frame["rank"], selector.ranking_[selector.order_])
    assert "missing" not in frame
    gaps = X.copy()
    gaps.iloc[0, 3] = np.nan
    assert RandSel().fit(gaps, y).to_frame()["missing"].sum() == 1
    assert RandSel().fit(X.to_numpy(), y).to_frame()["feature"][0] == f"x{selector.order_[0]}"
    with pytest.raises(NotFittedError):
        RandSel().to_frame()


def test_pairs_have_names(data):
    X, y = data
    scan = InteractionScan().fit(X, y)
    frame = scan.to_frame()
    assert {"p", "q", "main_p", "partner"} <= set(frame)
    partners = dict(zip(frame["feature"], frame["partner"], strict=True))
    assert partners["<b>g0</b>"] == "<b>g1</b>"
    assert partners["<b>g5</b>"] == ""  # its best pair is not significant
    pairs = scan.pairs_to_frame()
    assert set(pairs.loc[0, ["feature", "partner"]]) == {"<b>g0</b>", "<b>g1</b>"}
    assert np.array_equal(pairs["p"], scan.pairs_["p"])
    triples = InteractionScan(order=3).fit(X.iloc[:, :4], y).pairs_to_frame()
    assert triples["third"].isna().sum() == 6
    assert len(triples) == 10
    with pytest.raises(NotFittedError):
        InteractionScan().pairs_to_frame()


def test_features_that_stand_out_in_combination_only(data):
    selector = RandSel().fit(*data)
    assert selector.stands_out_
    assert selector.permutation_pvalue_ > 0.02
    assert "although one by one they do not stand out (permutation test" in selector._repr_html_()
    selector.permutation_pvalue_ = 0.01
    selector.path_ = replace(selector.path_, noise_pvalue=0.01)
    assert "The features as a whole are related to the target (permutation test, p = 0.010)" in selector._repr_html_()


def test_html_after_the_fit_has_a_verdict_and_escaped_names(data):
    X, y = data
    for selector in (RandSel(), RandSelCV(cv=3, gammas=["median"]), InteractionScan()):
        before = selector._repr_html_()
        assert 'class="randsel"' not in before
        html = selector.fit(X, y)._repr_html_()
        assert "of 10 features are selected." in html
        assert "&lt;b&gt;g0&lt;/b&gt;" in html
        assert html.count('<th class="number">') == len([c for c in selector.to_frame().dtypes if c.kind in "iuf"])
        assert "<b>g" not in html.split("</table></div>")[0]
        bundle = selector._repr_mimebundle_()
        assert 'class="randsel"' in bundle["text/html"]
        assert bundle["text/plain"] == repr(selector)
    assert "they do not stand out (permutation test" in RandSel().fit(X, y)._repr_html_()
    assert "Mean score over the folds" in RandSelCV(cv=3, gammas=["median"]).fit(X, y)._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(selector, "_repr_html_")
        assert "text/html" not in selector._repr_mimebundle_()


def test_html_of_noise_says_so():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="Nothing stands out"):
        selector = RandSel().fit(rng.standard_normal((40, 30)), np.arange(40) % 2)
    assert "Nothing stands out (permutation test" in selector._repr_html_()
