"""Array operations for numpy arrays and torch tensors on any device, where the array API is slow or lacks an operation.

Masks and column indices are numpy arrays on the host; values stay on the device of the data. Only `to_device` imports
torch; the other functions take it from `sys.modules`, because whoever passes a tensor has imported it.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from scipy.linalg import get_blas_funcs
from scipy.sparse import issparse

from randsel._utils.text import optional
from randsel._utils.typing import Array

#: Elements per scratch array: on the host few enough to stay in cache; on a GPU the upper limit.
SCRATCH, DEVICE_SCRATCH = 1 << 18, 1 << 29
#: Elements above which copies from a device go through pinned memory.
PINNED_SIZE = 1 << 16
#: Rows of matrices on a device are padded to a multiple of this many columns.
ALIGNED = 64
#: Number of features from which matrix products on a GPU are coarse: in half or TF32 precision.
COARSE_FEATURES = 32768
#: Number of rows from which one BLAS call on a matrix of pairs is faster than two passes of numpy over it.
BLAS_ROWS = 512
#: Columns from which computing one triangle of a Gram matrix and mirroring it is faster than the whole product.
SYRK_COLUMNS = 64
#: Mask of the entries below the diagonal, as large as the strips in which a triangle is mirrored.
BELOW_DIAGONAL = np.tri(64, k=-1, dtype=bool)
#: Type of array -> its namespace; `array_namespace` takes longer than a small array operation.
_NAMESPACES: dict[type, Any] = {}
#: Function that returns the device of an array; other files need the word `device` for other things.
device_of = device


def namespace(x: Any) -> Any:
    """Return the array API namespace of an array."""
    kind = type(x)
    if kind not in _NAMESPACES:
        _NAMESPACES[kind] = array_namespace(x)
    return _NAMESPACES[kind]


def on_host(x: Any) -> bool:
    """Whether an array is a numpy array."""
    return isinstance(x, np.ndarray)


def is_sparse(x: Any) -> bool:
    """Whether x is a sparse matrix or array of scipy."""
    return bool(issparse(x))


def is_structured(y: Any) -> bool:
    """Whether y is an array with named fields."""
    return getattr(getattr(y, "dtype", None), "names", None) is not None


def to_numpy(x: Any) -> Array:
    """Return an array as a numpy array; copies only from a device."""
    if on_host(x) or not is_torch_array(x):
        return np.asarray(x)
    if x.device.type == "cuda" and x.numel() > PINNED_SIZE:
        # A GPU copies to pinned memory far faster than to ordinary memory.
        return np.array(sys.modules["torch"].empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x).numpy())
    return np.asarray(x.detach().cpu().numpy())


def as_array_like(values: Any, other: Any, *, precise: bool = True) -> Any:
    """Return values on the device of `other`, floats in double precision or, unless `precise`, in that of `other`."""
    xp = namespace(other)
    dtype = (xp.float64 if precise else other.dtype) if np.asarray(values).dtype.kind == "f" else None
    return xp.asarray(values, dtype=dtype, device=device(other))


def as_index(mask: Array, other: Any) -> Any:
    """Return the indices where a mask is true, or indices as they are, on the device of `other`."""
    if on_host(other):
        return np.flatnonzero(mask) if mask.dtype.kind == "b" else mask
    moved = namespace(other).asarray(mask, device=device(other))
    return moved.nonzero()[:, 0] if mask.dtype.kind == "b" else moved


def take_columns(X: Any, mask: Any) -> Any:
    """Return the columns of a mask or of an index; X itself if the mask is true everywhere."""
    if on_host(mask) and mask.dtype.kind == "b" and mask.all():
        return X
    if on_host(X):
        # Rows stay contiguous. X[:, mask] would make the columns contiguous and all later work slower.
        return np.compress(mask, X, axis=-1) if mask.dtype.kind == "b" else np.take(X, mask, axis=-1)
    index = as_index(mask, X) if on_host(mask) else mask
    count = index.shape[0]
    if X.ndim == 2 and count > ALIGNED:
        # Matrix products are faster on rows that start at multiples of 64 elements: pad, and return a view.
        index = namespace(X).concat([index, index[: -count % ALIGNED]])
    return X.index_select(-1, index)[..., :count]


def astype(x: Any, dtype: Any) -> Any:
    """Return an array in a type, without a copy if it has that type."""
    return x if x.dtype == dtype else namespace(x).astype(x, dtype)


def without_gradients(x: Any) -> AbstractContextManager[Any]:
    """Return a context in which torch records nothing for gradients, which would cost time in every operation on x."""
    return sys.modules["torch"].inference_mode() if is_torch_array(x) else nullcontext()


def to_double(x: Any) -> Any:
    """Return an array in double precision."""
    return astype(x, namespace(x).float64)


def machine_epsilon(dtype: Any) -> float:
    """Return the machine epsilon of a floating point type."""
    return float(_finfo(dtype).eps)


def is_single(dtype: Any) -> bool:
    """Whether a floating point type is of single precision."""
    return bool(_finfo(dtype).bits == 32)


def _finfo(dtype: Any) -> Any:
    is_numpy = isinstance(dtype, np.dtype | type)
    return np.finfo(dtype) if is_numpy else sys.modules["torch"].finfo(dtype)


def set_diagonal(matrix: Any, value: float) -> None:
    """Overwrite the diagonal of a square matrix."""
    if on_host(matrix):
        np.fill_diagonal(matrix, value)
    else:
        matrix.fill_diagonal_(value)


def add_to_diagonal(matrix: Any, value: Any) -> None:
    """Add a number to the diagonal of a square matrix, in place."""
    if on_host(matrix):
        matrix[np.diag_indices(len(matrix))] += value
    else:
        matrix.diagonal().add_(value)


def clip(x: Any, low: float | None = None, high: float | None = None) -> Any:
    """Limit values from below and above; faster than the functions of the namespaces, which do more."""
    if not hasattr(x, "clamp"):  # an array or a number on the host
        x = x if low is None else np.maximum(x, low)
        return x if high is None else np.minimum(x, high)
    return x.clamp(low, high)


def median(x: Any) -> Any:
    """Return the median of a vector, on its device; on the host in half the time of `np.median`."""
    middle = len(x) // 2
    if not on_host(x):
        ordered = x.sort()[0]  # in full precision: a ranking must not depend on the device
        return to_double(0.5 * (ordered[(len(x) - 1) // 2] + ordered[middle]))
    partitioned = np.partition(x, middle)
    return partitioned[middle] if len(x) % 2 else 0.5 * (partitioned[:middle].max() + partitioned[middle])


def root_above_rounding(square: Any, scale: Any, m: int, dtype: Any) -> Any:
    """Return the square root; zero where the square is within the rounding error of a sum of m terms up to `scale`."""
    xp = namespace(square)
    return xp.sqrt(xp.where(square > (8 * m * machine_epsilon(dtype)) * scale, square, 0.0))


def safe_ratio(above: Any, below: Any) -> Any:
    """Return `above / below`, and 0 where `below` is zero."""
    return namespace(below).where(below > 0, above, 0.0) / clip(below, 1e-300)


def frobenius_norm(x: Any) -> float:
    """Return the Frobenius norm."""
    return math.sqrt(float(dot(x, x)))


def dot(a: Any, b: Any) -> Any:
    """Return the sum of the products of entries, on the device of the arrays."""
    return np.vdot(a, b) if on_host(a) else a.reshape(-1).dot(b.reshape(-1))


def to_floats(*values: Any) -> list[float]:
    """Return scalars as floats, in one transfer: each transfer waits until the device has finished its work."""
    if not is_torch_array(values[0]):
        return [float(value) for value in values]
    numbers: list[float] = sys.modules["torch"].stack(values).tolist()
    return numbers


def is_coarse(X: Any, n: int) -> bool:
    """Whether matrix products of X, a block of n features in all, are in half or TF32 precision."""
    return n >= COARSE_FEATURES and not on_host(X) and device(X).type == "cuda" and is_single(X.dtype)


@contextmanager
def coarse_products(X: Any, n: int) -> Iterator[None]:
    """Allow TF32, which has 11 significant bits and is faster, in matrix products on a GPU if n features are many.

    That is accurate enough: while many features are left, a round drops only the worst quarter of them.
    """
    if not is_coarse(X, n):
        yield
        return
    settings = sys.modules["torch"].backends.cuda.matmul
    before, settings.allow_tf32 = settings.allow_tf32, True
    try:
        yield
    finally:
        settings.allow_tf32 = before


def column_ranges(x: Any) -> Any:
    """Return the least and the largest value of every column."""
    return (x.min(axis=0), x.max(axis=0)) if on_host(x) else x.aminmax(dim=0)


def second_and_fourth_power_sums(x: Any) -> tuple[Any, Any]:
    """Return the sums of squares and of fourth powers of the columns, in double precision."""
    if on_host(x):
        squares = to_double(x) ** 2
        return squares.sum(axis=0), np.einsum("ij,ij->j", squares, squares)
    # A GPU sums in a tree, so single precision is accurate enough.
    squares = x * x
    second = squares.sum(dim=0)
    squares *= squares
    return to_double(second), to_double(squares.sum(dim=0))


def add_scaled(total: Any, x: Any, factor: float) -> None:
    """Add `factor · x` to the total, in place and in one pass."""
    if not on_host(total):
        total.add_(x, alpha=factor)
    elif total.flags.c_contiguous and x.flags.c_contiguous and total.dtype == x.dtype:
        get_blas_funcs("axpy", dtype=total.dtype)(x.reshape(-1), total.reshape(-1), a=factor)
    else:
        total += x * factor


def add_outer_sum(matrix: Any, values: Any) -> None:
    """Add `v_p + v_q` to the entries of a square matrix, in place."""
    if not on_host(matrix) or len(matrix) < BLAS_ROWS or not matrix.flags.c_contiguous:
        matrix += values[:, None]
        matrix += values[None, :]
        return
    # v 1ᵀ + 1 vᵀ as a product of rank two, in one pass. It is symmetric, so BLAS may take rows for columns.
    values = values.astype(matrix.dtype)
    sides = np.stack([values, np.ones_like(values)])
    multiply = get_blas_funcs("gemm", dtype=matrix.dtype)
    multiply(1.0, sides.T, sides[::-1].T, trans_b=1, beta=1.0, c=matrix.T, overwrite_c=1)


def row_sums(matrix: Any) -> Any:
    """Return the sums of the rows of a matrix."""
    if on_host(matrix):
        return matrix @ np.ones(matrix.shape[1], dtype=matrix.dtype)  # twice as fast as `sum`
    return matrix.sum(axis=1)


def symmetric_product(terms: Iterable[tuple[float, Any, Any]]) -> Any:
    """Return the sum of `c (a bᵀ + b aᵀ)` over triples (c, a, b), or of `c a aᵀ` where b is None."""
    full_sum, triangle = None, None
    for factor, a, b in terms:
        if on_host(a) and a.flags.c_contiguous:
            triangle = _add_triangle(triangle, factor, a, b)  # half the work
            continue
        product = a @ (a if b is None else b).T
        if factor != 1.0:
            product *= factor
        product = product if b is None else product + product.T
        full_sum = product if full_sum is None else full_sum + product
    if triangle is None:
        return full_sum
    total = _mirror_upper(triangle.T)
    return total if full_sum is None else total + full_sum


def _add_triangle(triangle: Any, factor: float, a: Array, b: Array | None) -> Any:
    """Add the lower triangle (column-major) of a term of `symmetric_product` to that of earlier terms."""
    options: dict[str, Any] = {"trans": 1, "lower": 1}
    if triangle is not None:
        options.update(beta=1.0, c=triangle, overwrite_c=1)
    if b is None:
        return get_blas_funcs("syrk", dtype=a.dtype)(factor, a.T, **options)
    return get_blas_funcs("syr2k", dtype=a.dtype)(factor, a.T, b.T, **options)


def _mirror_upper(upper: Array) -> Array:
    """Copy the upper triangle of a matrix to the lower one, in place, in strips whose columns stay in cache."""
    for start in range(0, len(upper), len(BELOW_DIAGONAL)):
        stop = start + len(BELOW_DIAGONAL)
        upper[stop:, start:stop] = upper[start:stop, stop:].T
        square = upper[start:stop, start:stop]
        square[:] = np.where(BELOW_DIAGONAL[: len(square), : len(square)], square.T, square)
    return upper


def columnwise_dot(a: Any, b: Any) -> Any:
    """Return the inner products of the columns of two matrices."""
    return np.einsum("ij,ij->j", a, b) if on_host(a) else (a * b).sum(axis=0)


def rowwise_dot(a: Any, b: Any) -> Any:
    """Return the inner products of the rows of two matrices."""
    return np.einsum("ij,ij->i", a, b) if on_host(a) else (a * b).sum(axis=1)


def multiply_by_transpose(a: Any, b: Any) -> Any:
    """Return `a bᵀ`; products of tensors in half precision are summed and returned in single precision."""
    if not on_host(a) and a.dtype.itemsize == 2:
        torch = sys.modules["torch"]
        return torch.mm(a, b.T, out_dtype=torch.float32)
    return a @ b.T


def add_square(total: Any, x: Any) -> None:
    """Add the squares of x to the total; overwrites x."""
    if not on_host(x):
        total.addcmul_(x, x)
    else:
        total += np.square(x, out=x)


def top_k(values: Any, count: int, least: float) -> tuple[Array, Array]:
    """Return positions and values of the `count` largest entries that are at least `least`, on the host, unsorted."""
    if on_host(values):
        positions = np.flatnonzero(values >= least)
        if len(positions) > count:
            positions = positions[np.argpartition(-values[positions], count - 1)[:count]]
        return positions, values[positions]
    if least > 0.0:  # few entries are left, among which the search is fast
        positions = (values >= least).nonzero()[:, 0]
        values = values[positions]
        top, order = values.topk(min(count, len(values)), sorted=False)
        return to_numpy(positions[order]), to_numpy(top)
    top, positions = map(to_numpy, values.topk(min(count, len(values)), sorted=False))
    return positions[top >= least], top[top >= least]


def coarse_gram(x: Any, n: int) -> Any:
    """Return `x xᵀ` for a block of n features in all, in half precision where products are coarse."""
    if not is_coarse(x, n):
        return x @ x.T if x.shape[1] < SYRK_COLUMNS else symmetric_product([(1.0, x, None)])
    rounded = x.half()
    return multiply_by_transpose(rounded, rounded)


def prepare_quadratic_forms(matrix: Any, dtype: Any) -> Any:
    """Prepare a symmetric matrix A for `forms_by_column`: on the host its lower triangle, with half the diagonal."""
    if not on_host(matrix):
        return astype(matrix, dtype)
    diagonal = np.diagonal(matrix)
    # BLAS wants column-major order. The transpose has it without a copy, and A is symmetric.
    triangle = astype(matrix, dtype).T
    if diagonal.any():
        triangle = triangle.copy(order="F")
        np.fill_diagonal(triangle, 0.5 * diagonal)
    return triangle


def forms_by_column(prepared: Any, rows: Any, weights: Any, x: Any, n: int) -> tuple[Any, Any, Any]:
    """Return `x_jᵀ A x_j`, `rows x` and `weights x²` for a block x of n features in all, with the prepared matrix A."""
    if on_host(x):  # as 2 xᵀ T x with the triangle T: half the work
        multiply = get_blas_funcs("trmm", dtype=x.dtype)
        forms = 2 * np.einsum("ji,ji->j", multiply(1.0, prepared, x.T, side=1, lower=1, trans_a=1), x.T)
        return to_double(forms), to_double(rows @ x), to_double(weights @ (x * x))
    if not is_coarse(x, n):
        return to_double(columnwise_dot(prepared @ x, x)), to_double(rows @ x), to_double(weights @ (x * x))
    m, torch = x.shape[0], sys.modules["torch"]
    # Half precision ends at 65504, so entries are scaled to at most one.
    operands = prepared, rows, weights
    scales = [operand.abs().max() for operand in operands]
    A, rows, weights = ((operand / scale).half() for operand, scale in zip(operands, scales, strict=True))
    rounded = x.half()
    products = multiply_by_transpose(torch.cat([A, rows]), rounded.T)
    rounded *= rounded
    square_products = multiply_by_transpose(weights, rounded.T)
    linear = to_double(products[m:]) * scales[1]
    products[:m] *= x
    return to_double(products[:m].sum(dim=0)) * scales[0], linear, to_double(square_products) * scales[2]


def stable_argsort(keys: Any, ties: Any, largest: float) -> Any:
    """Return the order of whole numbers `keys`, ties by `ties`, then by position; no magnitude exceeds `largest`."""
    if on_host(keys):
        return np.lexsort((ties, keys))
    xp = namespace(keys)
    if largest**2 < 2**50:  # both in one number, which double precision holds exactly
        return xp.argsort(keys * (2 * largest + 1) + ties, stable=True)
    first = xp.argsort(ties, stable=True)
    return xp.take(first, xp.argsort(xp.take(keys, first), stable=True))


def take_along_rows(values: Any, order: Any) -> Any:
    """Return the entries of every row in an order of its own."""
    return np.take_along_axis(values, order, axis=1) if on_host(values) else values.gather(1, order)


def complement(index: Any, n: int) -> Any:
    """Return the integers below n that are not in `index`, ascending; the entries of `index` are distinct."""
    mask = namespace(index).ones(n, dtype=namespace(index).bool, device=device(index))
    mask[index] = False
    if on_host(mask):
        return np.flatnonzero(mask)
    # The number of results is known, so the host need not wait for the device to count them.
    return mask.nonzero_static(size=n - len(index))[:, 0]


def scratch_size(x: Any) -> int:
    """Return the number of elements of a scratch array on the device of x."""
    return SCRATCH if on_host(x) else device_scratch_size(str(device(x)))


@lru_cache
def device_scratch_size(name: str) -> int:
    """Return the elements of a scratch array on a device: twelve arrays take a quarter of its free memory."""
    torch = sys.modules["torch"]
    if torch.device(name).type != "cuda":
        return SCRATCH
    free = torch.cuda.mem_get_info(name)[0]
    return int(min(max(free // (4 * 12 * 4), 1 << 24), DEVICE_SCRATCH))


def to_device(X: Any, name: str | None) -> Any:
    """Return an array as a tensor on a device that `check_device` returned; None returns the array itself."""
    if name is None:
        return X
    torch = optional("torch", extra="gpu", purpose=f"device={name!r}")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device={name!r}: torch sees no CUDA device here; use device='cpu', or leave it out.")
    count = torch.cuda.device_count()
    if name.startswith("cuda:") and int(name.split(":")[1]) >= count:
        raise ValueError(f"device={name!r}: torch sees {count} CUDA devices, numbered from 0.")
    return torch.as_tensor(X, device=name)


def check_device(name: str | None, X: Any) -> str | None:
    """Return the device to compute on: the one named, or where X is; None for numpy on the host."""
    if name is not None and re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise ValueError(f"device={name!r} is not a device; use 'cpu', 'cuda', 'cuda:1', or leave it out.")
    if name is None and not on_host(X) and not is_sparse(X):
        return str(device(X))
    return None if name == "cpu" else name


# ---------------------------------------------------------------- tables that are not in memory

#: Packages whose arrays are not in memory -> module whose `remote_table` adapts them.
REMOTE_TABLES = {"dask": "randsel.distributed"}


class RemoteTable(Protocol):
    """Interface of a table that is not in memory, with samples in rows."""

    def check(self) -> Any:
        """Raise ValueError if its shape or type rule out a fit; return its array of numbers, not read yet."""

    def to_numpy(self) -> Any:
        """Read the table into memory."""

    def hash_blocks(self) -> list[bytes]:
        """Return hashes of all columns, in order and in any number of pieces."""

    def standardised_columns(self, scaling: Any, max_bytes: int | None) -> tuple[Any, Array]:
        """Return the columns that vary, standardised by a `Scaling`, as a `ColumnSource`, and their indices."""

    def rank_functions(
        self, n_functions: int, weights: Array, nominal: Array, strata: Array | None = None, max_missing: float = 1.0
    ) -> tuple[Any, Array]:
        """Return a `RankFunctionSource` of the columns that have rank functions, and the indices of these columns."""


def remote_table(X: Any) -> RemoteTable | None:
    """Return the adapter of an array that is not in memory; None for anything else."""
    module = REMOTE_TABLES.get(type(X).__module__.partition(".")[0])
    table: RemoteTable | None = None if module is None else import_module(module).remote_table(X)
    return table
