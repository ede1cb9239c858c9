"""scikit-learn's own checks, all of them, on every public estimator.

But for `PathKernels`, whose output is a stack of matrices, and the checks want a matrix; `tests/test_mkl.py` has its
pipeline cross-validated, cloned and pickled.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from randsel import InteractionScan, LPBoostMKL, RandSel, RandSelCV, SmallestSet, SparseFiltering

WEIGHTS = (
    "Weights say how much a sample counts, and only their ratios matter. A repeated row is something else: it forms a "
    "pair with its copy, at distance zero, while a sample never forms a pair with itself."
)


EVIDENCE = (
    "Weights say how much a sample counts. A sample that counts double is not two independent samples: p-values that "
    "took it for two would be too small."
)


def expected_failures(estimator):
    if isinstance(estimator, SmallestSet):
        return {}  # the data of these checks are noise, of which it selects nothing
    reason = EVIDENCE if isinstance(estimator, InteractionScan) else WEIGHTS
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.no_cover  # other tests cover the code; without tracing, the checks take half the time
@pytest.mark.filterwarnings("ignore:Nothing stands out")
@pytest.mark.filterwarnings("ignore:No features were selected")
@pytest.mark.filterwarnings("ignore:Sparse filtering did not converge")
@pytest.mark.filterwarnings("ignore:.*features were in none of")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@parametrize_with_checks(
    [
        RandSel(),
        RandSel(estimator="bootstrap", n_bootstraps=64),
        RandSel(kernel="rank"),
        RandSelCV(cv=2, gammas=["median"]),
        InteractionScan(1),
        InteractionScan(),
        SmallestSet(),
        SparseFiltering(3, max_iter=50),
        LPBoostMKL(),
    ],
    expected_failed_checks=expected_failures,
)
def test_estimator(estimator, check):
    check(estimator)
