"""Sparse filtering (Ngiam et al. 2011): learn features such that every sample has few active ones.

The responses `F = X Wᵀ` become soft absolute values `√(F² + ε)`, which are divided by the norm of each feature over the
samples and then by the norm of each sample over the features; the objective is their sum. The number of features is
the only hyperparameter.
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
from randsel._sklearn.base import CallbackSupportMixin, Interval, Steps, check_table, fit_context, fit_task
from randsel._utils.typing import Array

#: ε, which makes the soft absolute value differentiable at zero.
EPSILON = 1e-8


class SparseFiltering(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn sparse features without labels.

    Parameters
    ----------
    n_components : int, default=256
        Number of features to learn, usually more than X has columns.
    max_iter : int, default=200
        Maximum number of L-BFGS iterations.
    tol : float, default=1e-6
        Stop when an iteration lowers the objective by less than this fraction of it.
    device : str or None, default=None
        Device that computes the objective: "cpu", or with torch "cuda", "cuda:1". The fitted attributes are on the
        host.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights.
    verbose : int or callable, default=0
        1 writes the objective to standard error after every iteration; a function is called with the iteration and
        the objective.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W, one row per learned feature.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples, which is subtracted.
    scales_ : ndarray of shape (n_components,)
        Root mean square of each soft response over the training samples.
    objective_ : float
        Sum of the features of a sample, averaged over the training samples; between 1 (one active feature per sample)
        and √n_components.
    n_iter_, converged_ : int and bool
        Number of iterations, and whether the fit converged; a warning is raised if not.
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
            Present for API consistency.

        Returns
        -------
        SparseFiltering
            This estimator, fitted.
        """
        X = check_table(self, X, reset=True)
        self.mean_ = X.mean(axis=0)
        X = X - self.mean_
        shape = self.n_components, X.shape[1]
        X_on_device = to_device(X, check_device(self.device, X))
        start = check_random_state(self.random_state).standard_normal(shape)
        options = {"maxiter": self.max_iter, "ftol": self.tol, "gtol": 0.0}
        show = self.verbose if callable(self.verbose) else _write_progress if self.verbose else None
        with fit_task(self, self.max_iter) as task:
            iterations, done, stop = Steps(task), 0, False

            def evaluate(w: Array) -> tuple[float, Array]:
                if done < self.max_iter:
                    iterations.begin("iteration")
                return objective(w.reshape(shape), X_on_device)

            def after_iteration(intermediate_result: Any) -> None:
                nonlocal done, stop
                done += 1
                if show is not None:
                    show(done, float(intermediate_result.fun) / len(X))
                stop = iterations.end(lambda: _attributes(intermediate_result.x.reshape(shape).copy(), X))
                if stop:
                    raise StopIteration

            result = minimize(
                evaluate, start.ravel(), jac=True, method="L-BFGS-B", callback=after_iteration, options=options
            )
            iterations.end()
            self.__dict__.update(_attributes(result.x.reshape(shape), X))
            self.objective_ = float(result.fun) / len(X)
            self.n_iter_ = int(result.nit)
            self.converged_ = bool(result.success)
        if not (self.converged_ or stop):
            warnings.warn(
                f"Sparse filtering did not converge in {self.n_iter_} iterations (objective {self.objective_:.4g}); "
                "raise max_iter, or tol. The features learned so far are kept.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def transform(self, X: Any) -> Array:
        """Return the learned features of every sample, a vector of length one.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Numbers, no missing values.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Non-negative; most are close to zero.
        """
        check_is_fitted(self, "components_")
        X = check_table(self, X, reset=False)
        features = _soft_absolute(X - self.mean_, self.components_) / self.scales_
        norms: Array = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features / norms)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def _attributes(W: Array, X: Array) -> dict[str, Array]:
    """Return the fitted attributes that `transform` needs in addition to the mean."""
    return {"components_": W, "scales_": np.sqrt(np.square(_soft_absolute(X, W)).mean(axis=0))}


def _soft_absolute(X: Array, W: Array) -> Array:
    """Return the responses of the features after the soft absolute value."""
    responses = X @ W.T
    return np.asarray(np.sqrt(responses * responses + EPSILON))


def objective(W: Array, X: Any) -> tuple[float, Array]:
    """Return the sum of the normalised features and its gradient in W (flattened), computed on the device of X."""
    xp = namespace(X)
    F = X @ as_array_like(W, X).T
    soft = xp.sqrt(F * F + EPSILON)
    feature_norms = xp.sqrt(xp.sum(soft * soft, axis=0))
    scaled = soft / feature_norms
    sample_norms = xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
    sparse = scaled / sample_norms
    # backpropagation through a division by a norm: (g - x̂ ⟨x̂, g⟩) / ‖x‖
    gradient = (1.0 - sparse * xp.sum(sparse, axis=1, keepdims=True)) / sample_norms
    gradient = (gradient - scaled * xp.sum(scaled * gradient, axis=0)) / feature_norms
    gradient = gradient * (F / soft)
    return float(xp.sum(sparse)), to_numpy(gradient.T @ X).ravel()


def _write_progress(iteration: int, value: float) -> None:
    sys.stderr.write(f"[SparseFiltering] iteration {iteration}, objective {value:.5g}\n")
