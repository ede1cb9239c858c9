"""Predictions of a selector with a model: the methods of `RandSelCV` that pass selected features on to its model."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from randsel._numerics.arrays import is_sparse
from randsel._numerics.missing import impute_means
from randsel._numerics.standardise import rescale
from randsel._utils.typing import Array


def _model_has(name: str) -> Callable[[Any], bool]:
    """Return a check of whether the fitted model has a method or attribute."""

    def check(estimator: Any) -> bool:
        model = getattr(estimator, "estimator_", estimator.estimator)
        return model is not None and hasattr(model, name)

    return check


class PredictionMixin:
    """Adds `predict` and its relatives to a selector that fits a model on the selected features."""

    estimator: Any
    estimator_: Any
    scoring: Any
    support_: Any
    transform: Any

    def _fit_model(self, model: Any, X: Any, y: Array, weights: Array | None, exponents: Array) -> None:
        """Fit the model to the selected columns of X, which are multiplied by powers of two already."""
        columns = np.flatnonzero(self.support_)
        values = X[:, columns].toarray() if is_sparse(X) else X[:, columns]
        self._exponents = exponents[columns]
        # Means of the training samples, for models that do not take missing values.
        self._means = (
            None if takes_missing(model) else impute_means(np.vstack([values, np.full(len(columns), np.nan)]))[-1]
        )
        fitted = clone(model)
        self.estimator_ = fitted.fit(self._fill(values), y, **weights_for(fitted, weights))
        if hasattr(self.estimator_, "classes_"):
            self.classes_ = self.estimator_.classes_

    def _fill(self, values: Array) -> Array:
        return values if self._means is None else np.where(np.isnan(values), self._means, values)

    def _select(self, X: Any) -> Array:
        """Return the selected features of new samples as the model takes them."""
        check_is_fitted(self)
        values = self.transform(X)
        values = values.toarray() if is_sparse(values) else values
        return self._fill(rescale(np.asarray(values, dtype=np.float64), self._exponents))

    def predict(self, X: Any) -> Any:
        """Predict y from the selected features of new samples.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Data with the columns of `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            Predictions of `estimator_`: labels, numbers, or risks.
        """
        values = self._select(X)
        return self.estimator_.predict(values)

    @available_if(_model_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class, if the model does; X as in `predict`."""
        values = self._select(X)
        return self.estimator_.predict_proba(values)

    @available_if(_model_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the decision function of the model, if it has one; X as in `predict`."""
        values = self._select(X)
        return self.estimator_.decision_function(values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if hasattr(self.estimator, "__sklearn_tags__"):
            model = get_tags(self.estimator)
            tags.estimator_type = model.estimator_type
            tags.classifier_tags, tags.regressor_tags = model.classifier_tags, model.regressor_tags
        return tags

    def score(self, X: Any, y: Any) -> float:
        """Return the score of the model by `scoring`, or its own score, on the selected features of new samples.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Data with the columns of `fit`.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            The outcome.

        Returns
        -------
        float
            The score.
        """
        values = self._select(X)
        return float(check_scoring(self.estimator_, scoring=self.scoring)(self.estimator_, values, y))


def takes_missing(model: Any) -> bool:
    """Return whether a model takes missing values, or a pipeline replaces them itself."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        return any(type(step).__module__.startswith("sklearn.impute") for step in steps)
    return hasattr(model, "__sklearn_tags__") and bool(get_tags(model).input_tags.allow_nan)


def weights_for(model: Any, weights: Array | None) -> dict[str, Array]:
    """Return the weights as a keyword of `fit` of the model or of the last step of a pipeline; {} if it takes none."""
    if weights is None:
        return {}
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if not has_fit_parameter(last, "sample_weight"):
        return {}
    return {f"{name}__sample_weight" if name else "sample_weight": weights}
