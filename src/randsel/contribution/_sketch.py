"""A sketch of `Σ_j d²` for wide tables, where `d` is the squared difference of two samples in feature `j`.

The sum itself takes two Gram matrices (`sum_squared_differences`), and a sketch only products with a few vectors.
Equations are numbered as in docs/explanation/mathematics.md.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from randsel._numerics.arrays import as_array_like, dot, namespace, to_double, to_floats
from randsel._utils.jobs import generator
from randsel._utils.typing import Array

#: Number of probe vectors.
PROBES = 32


@dataclass(frozen=True)
class Sketch:
    """The part of `Σ_j d²` that costs no further Gram matrix: `Σ_j d² = r_p + r_q - constant + R_pq` (eq. 10').

    Attributes
    ----------
    rows, constant
        `r` and the constant.
    diagonal
        Diagonal of R.
    probes
        R times random vectors, from which its norm is estimated without R.
    """

    rows: Any
    constant: Any
    diagonal: Any
    probes: Any

    @classmethod
    def from_block(cls, x: Any, z: Any) -> "Sketch":
        """Compute the sketch of a block of columns with probe vectors z."""
        xp, m = namespace(x), x.shape[0]
        square = x * x
        cube = square * x
        # A last column of 1/m makes the same products give means over the rows.
        vectors = xp.concat([z, xp.ones_like(z[:, :1]) / m], axis=1)
        squares, cubes = square.T @ vectors, cube.T @ vectors
        second = squares[:, -1]  # E[x²]
        squares[:, :-1] *= 6.0
        cubes[:, :-1] *= -4.0
        # R z = 6 S Sᵀ z - 4 (C Xᵀ + X Cᵀ) z. As z has mean zero, centring S and C only centres the result, below.
        by_square, by_x = square @ squares, x @ cubes
        applied = by_square[:, :-1] + by_x[:, :-1] + cube @ (x.T @ (z * -4.0))
        second_sum, third_sum = to_double(by_square[:, -1]), to_double(by_x[:, -1])
        fourth_sum = to_double((square * square).sum(axis=1))
        constant = 6.0 * to_double(second * second).sum()
        # d = 0 for p = q, so that R_pp = constant - 2 r_p.
        return cls(
            rows=fourth_sum + 6.0 * second_sum - 4.0 * third_sum,
            constant=constant,
            diagonal=8.0 * third_sum - 2.0 * fourth_sum - 12.0 * second_sum + constant,
            probes=to_double(applied - applied.mean(axis=0)),
        )

    def add(self, other: "Sketch", sign: float = 1.0) -> "Sketch":
        """Return the sketch of the columns of both, or with sign=-1 of those of `self` without `other`."""
        names = [entry.name for entry in fields(self)]
        return Sketch(*(getattr(self, name) + sign * getattr(other, name) for name in names))

    def __add__(self, other: "Sketch") -> "Sketch":
        return self.add(other)

    def fit_to_gram(self, products: Any) -> tuple[float, Any, float]:
        """Approximate `Σ_j d²` by `slope · products_pq + row_p + row_q`; return slope, row and a bound on the error.

        The cube of a column is nearly a multiple of the column, so most of R is a multiple of the Gram matrix. The
        bound, on the norm of the error, is exceeded with probability 1e-5 at most.
        """
        z = probe_vectors(products)
        gram_diagonal = to_double(namespace(products).linalg.diagonal(products))
        gram_probes, z = to_double(products @ z), to_double(z)
        # Without the diagonals, which belong to no pair of different rows.
        gram_probes -= gram_diagonal[:, None] * z
        probes = self.probes - self.diagonal[:, None] * z
        overlap, gram_square = to_floats(dot(probes, gram_probes), dot(gram_probes, gram_probes))
        slope = overlap / max(gram_square, 1e-300)
        residual, residual_diagonal = probes - slope * gram_probes, self.diagonal - slope * gram_diagonal
        measured, along_ones = to_floats(dot(residual, residual), dot(residual_diagonal, residual_diagonal))
        # Twice the norm that the probe vectors measure; they have mean zero, so add the image of the constant vector.
        bound = (4.0 * measured / PROBES + along_ones / len(z)) ** 0.5
        return slope, self.rows - 0.5 * self.constant, bound


def probe_vectors(other: Any) -> Any:
    """Return fixed random vectors of mean zero, in the type and on the device of another array."""
    return as_array_like(_probe_vectors(other.shape[0]), other, precise=False)


@lru_cache(maxsize=2)
def _probe_vectors(m: int) -> Array:
    z: Array = generator(0).standard_normal((m, PROBES))
    z -= z.mean(axis=0)
    return z
