"""Sparse filtering (Ngiam et al. 2011): features of which each example has few, and each is used by few examples.

The objective is a sum over responses `F = X Wᵀ`, made soft absolute values `√(F² + ε)`, divided by the norm of each
feature over the examples, then by the norm of each example over the features. There is nothing to tune but how many.
"""

import sys
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from randsel._numerics.arrays import as_array_like, check_device, namespace, to_device, to_numpy
from randsel._sklearn.progress import CallbackSupportMixin, Steps, fit_task
from randsel._sklearn.validation import Interval, check_table, fit_context
from randsel._utils.typing import Array

#: Softens the absolute value, so that it has a slope at zero.
EPSILON = 1e-8


class SparseFiltering(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn features without labels, by their sparsity alone.

    Parameters
    ----------
    n_components : int, default=256
        Number of features to learn. More than there are columns is usual.
    max_iter : int, default=200
        Iterations of L-BFGS at most.
    tol : float, default=1e-6
        Stop when an iteration lowers the objective by less than this share of it.
    device : str or None, default=None
        Where to compute the objective: "cpu", or with torch "cuda", "cuda:1". What is learned is kept on the host.
    random_state : int, RandomState or None, default=None
        Seed of the start.
    verbose : int or callable, default=0
        1 writes the objective to standard error after every iteration; a function is called with the number of the
        iteration and the objective.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W, one row per learned feature.
    mean_ : ndarray of shape (n_features,)
        Mean of the training examples, which is taken off.
    scales_ : ndarray of shape (n_components,)
        Root mean square of each soft response over the training examples.
    objective_ : float
        Mean over the training examples of the sum of their features, between 1 (one feature each) and √n_components.
    n_iter_, converged_ : int and bool
        Iterations done, and whether they sufficed; a warning is given if not.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from randsel import SparseFiltering
    >>> X = np.random.default_rng(0).laplace(size=(100, 6))
    >>> SparseFiltering(10, random_state=0).fit_transform(X).shape
    (100, 10)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "device": [str, None],
        "random_state": ["random_state"],
        "verbose": ["verbose", callable],
    }

    def __init__(
        self,
        n_components: int = 256,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
        device: str | None = None,
        random_state: Any = None,
        verbose: int | Callable[[int, float], None] = 0,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "SparseFiltering":  # noqa: ARG002
        """Learn the features.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.
        y : ignored
            Here because pipelines pass it.

        Returns
        -------
        SparseFiltering
            This estimator, fitted.
        """
        X = check_table(self, X, reset=True)
        self.mean_ = X.mean(axis=0)
        X = X - self.mean_
        shape = self.n_components, X.shape[1]
        placed = to_device(X, check_device(self.device, X))
        start = check_random_state(self.random_state).standard_normal(shape)
        show = self.verbose if callable(self.verbose) else _write_progress if self.verbose else None
        with fit_task(self, self.max_iter) as task:
            iterations, done, stop = Steps(task), 0, False

            def value(w: Array) -> tuple[float, Array]:
                if done < self.max_iter:
                    iterations.begin("iteration")
                return objective(w.reshape(shape), placed)

            def after(intermediate_result: Any) -> None:
                nonlocal done, stop
                done += 1
                if show is not None:
                    show(done, float(intermediate_result.fun) / len(X))
                stop = iterations.end(lambda: _attributes(intermediate_result.x.reshape(shape).copy(), X))
                if stop:
                    raise StopIteration

            found = minimize(
                value,
                start.ravel(),
                jac=True,
                method="L-BFGS-B",
                callback=after,
                options={"maxiter": self.max_iter, "ftol": self.tol, "gtol": 0.0},
            )
            iterations.end()
            self.__dict__.update(_attributes(found.x.reshape(shape), X))
            self.objective_ = float(found.fun) / len(X)
            self.n_iter_ = int(found.nit)
            self.converged_ = bool(found.success)
        if not (self.converged_ or stop):
            warnings.warn(
                f"Sparse filtering did not converge in {self.n_iter_} iterations (objective {self.objective_:.4g}); "
                "raise max_iter, or tol. The features learned so far are kept.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def transform(self, X: Any) -> Array:
        """Return the learned features of every example, of length one.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Not negative; most are close to zero.
        """
        check_is_fitted(self, "components_")
        X = check_table(self, X, reset=False)
        features = _soft(X - self.mean_, self.components_) / self.scales_
        norms: Array = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features / norms)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def _attributes(W: Array, X: Array) -> dict[str, Array]:
    """Return what `transform` needs of a fitted estimator, beside the mean."""
    return {"components_": W, "scales_": np.sqrt(np.square(_soft(X, W)).mean(axis=0))}


def _soft(X: Array, W: Array) -> Array:
    responses = X @ W.T
    return np.asarray(np.sqrt(responses * responses + EPSILON))


def objective(W: Array, X: Any) -> tuple[float, Array]:
    """Sum of the normalised features, and its slope along the entries of W (as a vector), computed where X is."""
    xp = namespace(X)
    F = X @ as_array_like(W, X).T
    soft = xp.sqrt(F * F + EPSILON)
    by_feature = xp.sqrt(xp.sum(soft * soft, axis=0))
    even = soft / by_feature
    by_example = xp.sqrt(xp.sum(even * even, axis=1, keepdims=True))
    sparse = even / by_example
    # back through a division by a norm: (g - x̂ ⟨x̂, g⟩) / ‖x‖
    slope = (1.0 - sparse * xp.sum(sparse, axis=1, keepdims=True)) / by_example
    slope = (slope - even * xp.sum(even * slope, axis=0)) / by_feature
    slope = slope * (F / soft)
    return float(xp.sum(sparse)), to_numpy(slope.T @ X).ravel()


def _write_progress(iteration: int, value: float) -> None:
    sys.stderr.write(f"[SparseFiltering] iteration {iteration}, objective {value:.5g}\n")
