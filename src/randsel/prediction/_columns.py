"""`ColumnModel`, the model of a panel on some columns of a table, and what it predicts."""

from dataclasses import dataclass

import numpy as np

from randsel._utils.typing import Array
from randsel.prediction._model import fit_model
from randsel.prediction._ridge import Model
from randsel.prediction._scores import Preparation, score_columns
from randsel.tables import Table
from randsel.targets import OutcomeKind, is_constant_within


@dataclass(frozen=True)
class ColumnModel:
    """Preparation and model of some columns of a table, fitted to some of its rows."""

    columns: Array
    preparation: Preparation
    model: Model

    @classmethod
    def fit(cls, table: Table, kind: OutcomeKind, columns: Array, rows: Array) -> "ColumnModel":
        """Fit the model to some rows. The classes, and the levels of covariates, are those of the whole table."""
        batch = None if table.batch is None else batch_to_remove(table.rows(rows))
        # X is not bound to a name, so that its memory is free while the model is fitted
        preparation, Z = Preparation.fit(
            table.X[np.ix_(rows, columns)].astype(np.float64, copy=False), table.covariates, rows, batch
        )
        classes = np.unique(table.y) if kind.has_classes else None
        groups = None if table.groups is None else table.groups[rows]
        return cls(columns, preparation, fit_model(Z, table.y[rows], kind, groups, classes))

    def outputs(self, table: Table, rows: Array) -> Array:
        """Return the outputs for some rows; batch means are not removed, because new samples have other batches."""
        Z = score_columns(table.X[np.ix_(rows, self.columns)].astype(np.float64, copy=False), self.preparation.points)
        covariates = {name: values[rows] for name, values in table.covariates.items()}
        return self.model.outputs(self.preparation.adjust(Z, covariates))


def batch_to_remove(table: Table) -> Array | None:
    """Return the batches; None if the target is constant within each, because batch means would contain its effect."""
    return None if table.batch is None or is_constant_within(table.y, table.batch) else table.batch


def predict_from_outputs(outputs: Array, classes: Array | None) -> Array:
    """Return the class of the largest output of every sample; numbers and risks are the outputs."""
    return outputs[:, 0] if classes is None else np.asarray(classes[outputs.argmax(axis=1)])
