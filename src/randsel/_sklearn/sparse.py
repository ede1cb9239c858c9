"""Sparse matrices of scipy as the data of a fit: small ones become dense, large ones are read in blocks."""

from typing import Any

from randsel._numerics.arrays import is_sparse
from randsel._numerics.columns import memory_for_columns
from randsel._numerics.sparse_columns import MAX_DENSE, canonical_csc, dense_bytes


def dense_if_small(estimator: Any, X: Any, *, blocks: bool) -> Any:
    """Return a sparse X as an array if it is small, otherwise as CSC if the estimator reads it in `blocks`.

    An X that is not sparse is returned as it is. Raises ValueError if the estimator needs a dense X.
    """
    if not is_sparse(X):
        return X
    max_memory, n_bytes = getattr(estimator, "max_memory", None), dense_bytes(X)
    limit = MAX_DENSE if max_memory is None else memory_for_columns(max_memory, *X.shape)
    if n_bytes <= limit:
        return X.toarray()
    if blocks:
        return canonical_csc(X)
    raise ValueError(
        f"X is sparse and would take {n_bytes / 1e9:.3g} GB as the dense array that {type(estimator).__name__} needs; "
        "select features first, such as RandSel(1000).fit_transform(X, y), or pass X.toarray() if memory allows."
    )
