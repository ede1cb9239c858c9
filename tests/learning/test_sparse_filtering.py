import pickle

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from randsel import SparseFiltering
from randsel.learning._sparse_filtering import objective


def literal(W, X):
    """The objective example by example, as it is written."""
    F = np.array([[np.sqrt((w @ x) ** 2 + 1e-8) for w in W] for x in X])
    for j in range(F.shape[1]):
        F[:, j] = F[:, j] / np.linalg.norm(F[:, j])
    for i in range(F.shape[0]):
        F[i] = F[i] / np.linalg.norm(F[i])
    return F


@pytest.fixture
def data(rng):
    return rng.laplace(size=(60, 5)) @ rng.normal(size=(5, 8))


def test_gradient_of_the_objective(rng, data):
    W = rng.normal(size=(7, 8))
    value, slope = objective(W, data)
    assert value == pytest.approx(literal(W, data).sum())
    error = check_grad(
        lambda w: objective(w.reshape(7, 8), data)[0], lambda w: objective(w.reshape(7, 8), data)[1], W.ravel()
    )
    assert error < 1e-5 * np.linalg.norm(slope)


def test_transform_of_training_samples_equals_the_optimised_features(data):
    fitted = SparseFiltering(6, random_state=0, max_iter=500).fit(data)
    expected = literal(fitted.components_, data - data.mean(axis=0))
    np.testing.assert_allclose(fitted.transform(data), expected, rtol=1e-9)
    assert fitted.objective_ == pytest.approx(expected.sum() / 60)
    assert 1 <= fitted.objective_ <= np.sqrt(6)
    assert fitted.converged_
    assert list(fitted.get_feature_names_out()[:2]) == ["sparsefiltering0", "sparsefiltering1"]
    assert fitted.n_iter_ > 5


def test_features_are_sparser_than_the_initial_ones(data):
    start = np.random.RandomState(0).standard_normal((6, 8))
    centred = data - data.mean(axis=0)
    assert SparseFiltering(6, random_state=0).fit(data).objective_ < 0.95 * objective(start, centred)[0] / 60


def test_directions_of_sparse_sources_are_recovered(rng):
    """One source at a time, mixed by a rotation: features respond to one of them each."""
    sources = np.eye(4)[rng.integers(0, 4, 800)] * rng.normal(size=(800, 1)) + 0.02 * rng.normal(size=(800, 4))
    mixing = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    fitted = SparseFiltering(8, random_state=1, max_iter=1000).fit(sources @ mixing)
    aligned = np.abs(fitted.components_ @ mixing.T)
    share = aligned.max(axis=1) / np.linalg.norm(aligned, axis=1)
    assert np.all(share > 0.95)
    assert set(aligned.argmax(axis=1)) == {0, 1, 2, 3}


def test_warning_without_convergence_and_progress(data, capsys):
    seen = []
    with pytest.warns(ConvergenceWarning, match="did not converge in 3 iterations.*raise max_iter"):
        fitted = SparseFiltering(6, max_iter=3, random_state=0, verbose=lambda *step: seen.append(step)).fit(data)
    assert not fitted.converged_
    assert [step[0] for step in seen] == [1, 2, 3]
    assert seen[-1][1] == pytest.approx(fitted.objective_)
    with pytest.warns(ConvergenceWarning):
        SparseFiltering(6, max_iter=2, random_state=0, verbose=1).fit(data)
    assert "iteration 2, objective" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stacked_layers_can_be_pickled(data):
    layers = make_pipeline(SparseFiltering(6, random_state=0, max_iter=30), SparseFiltering(3, random_state=0))
    features = layers.fit_transform(data)
    assert features.shape == (60, 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layers)).transform(data), features)


def test_same_seed_same_features(data):
    first, second = (SparseFiltering(4, random_state=3).fit(data).components_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_nonfinite_values_are_refused(data):
    data[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN in column 2"):
        SparseFiltering(3).fit(data)
