"""The pairing matrices of the closed form, compared with literal ones."""

import numpy as np
import pytest

from randsel._numerics.kernels import u_centre
from randsel.contribution._expected_kernel import PairingMatrices
from randsel.contribution._sample import Sample
from randsel.targets._kinds import KINDS
from randsel.targets._target import Target

TARGETS = {
    "two classes": ("classification", lambda rng, m: np.arange(m) % 2),
    "five classes": ("classification", lambda rng, m: np.arange(m) % 5),
    "a class of one": ("classification", lambda rng, m: (np.arange(m) == 3).astype(int)),
    "three outputs": ("regression", lambda rng, m: rng.normal(size=(m, 3))),
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_the_literal_products_of_target_and_expected_kernel(rng, kind, weighted, dtype):
    m = 30
    which, make = TARGETS[kind]
    target = Target.encode(make(rng, m), KINDS[which], rng.uniform(0.5, 2.0, m) if weighted else None)
    log_expected = rng.normal(size=(m, m)) - 3.0
    log_expected += log_expected.T
    pairing, scale = PairingMatrices.from_log_expected(
        Sample.from_columns(rng.normal(size=(m, 4)), target), target, log_expected.astype(dtype)
    )
    off = ~np.eye(m, dtype=bool)
    expected = np.where(off, np.exp(log_expected - log_expected[off].max()), 0.0)
    digits = 1e-5 if dtype is np.float32 else 1e-12
    assert scale == pytest.approx(log_expected[off].max(), rel=digits)
    np.testing.assert_allclose(pairing.total, target.kernel * expected, atol=digits)
    np.testing.assert_allclose(pairing.total_rows, (target.kernel * expected).sum(axis=1), atol=m * digits)
    literal = u_centre(target.kernel * u_centre(expected))
    np.testing.assert_allclose(pairing.interaction, literal, atol=digits)
