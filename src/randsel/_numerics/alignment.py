"""How well a kernel on the features agrees with the kernel on the target.

The paper's definition is `⟨C_x, C_y⟩_F / (‖C_x‖_F ‖C_y‖_F)`; the sum of absolute entries that it prints as the
denominator is a slip, since it is not the Frobenius norm it stands for. Frobenius norms are used here.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from randsel._numerics.arrays import dot, double, eps, inner, norm, row_sums, scalars, set_diagonal
from randsel._numerics.kernels import centre, hollow_centre
from randsel._utils.jobs import generator
from randsel._utils.typing import Array


def alignment(kernel: Array, target: Array) -> float:
    """Centred kernel-target alignment, in [-1, 1]; 0 where a centred kernel vanishes."""
    return _cosine(centre(kernel), centre(target))


def unbiased_alignment(kernel: Any, hollow_target: Any, length: float | None = None) -> float:
    """Alignment of U-centred kernels, the target's already so: mean 0 for an unrelated target and any kernel.

    `length` is the norm of the target's, if known. The kernel is overwritten. It need not be centred itself: its
    product with a centred matrix is the same, and its norm follows from its row sums.
    """
    m = kernel.shape[0]
    # nearly constant kernels would leave only rounding of their squares; a few rows tell that constant
    kernel -= kernel[:: max(1, m // 32)].mean()
    set_diagonal(kernel, 0.0)
    rows = double(row_sums(kernel))
    square, product, of_rows, total = scalars(
        dot(kernel, kernel), dot(kernel, hollow_target), dot(rows, rows), rows.sum()
    )
    length = norm(hollow_target) if length is None else length
    centred = square - 2 / (m - 2) * of_rows + total**2 / ((m - 1) * (m - 2))
    if centred <= 64 * eps(kernel.dtype) * square or length == 0.0:
        return 0.0
    return product / (float(np.sqrt(centred)) * length)


def null_scale(m: int) -> float:
    """One over the standard deviation of the unbiased alignment when rows are permuted (docs/mathematics.md, eq. 8)."""
    return float(np.sqrt(m * (m - 3) / 2))


@dataclass(frozen=True)
class Chance:
    """Alignment reached by the best of independent noise features (docs/mathematics.md, eq. 13).

    Attributes
    ----------
    spectrum
        Eigenvalues of the target kernel, of norm one: they give the null distribution of a feature's main score.
    n
        Number of features to choose from.
    null_sd
        Standard deviation of the alignment under the null.
    n_blocks
        Blocks of rows that a score is a sum over.
    """

    spectrum: Array
    n: int
    null_sd: float
    n_blocks: int = 1

    @classmethod
    def of(cls, Y: Array, n: int, null_sd: float, n_blocks: int = 1) -> "Chance":
        """Take the spectrum from the factor Y of the target kernel."""
        spectrum = np.linalg.eigvalsh(Y.T @ Y)
        return cls(spectrum / np.linalg.norm(spectrum), n, null_sd, n_blocks)

    @cached_property
    def alignments(self) -> Array:
        """By the best k features, for k = 1, …, n."""
        rng = generator(0)
        repeats = max(1, min(20, 20000 // self.n))
        sums = np.zeros(self.n)
        for _ in range(repeats):
            squares = rng.chisquare(self.n_blocks, (self.n, len(self.spectrum)))
            scores = (squares - self.n_blocks) @ self.spectrum / np.sqrt(2 * self.n_blocks)
            sums += np.cumsum(np.sort(scores)[::-1]) / repeats
        signal = sums * self.null_sd
        chance: Array = signal / np.sqrt(np.arange(1, self.n + 1) + signal**2)
        return chance


def hsic(kernel: Array, target: Array) -> float:
    """Biased HSIC: `tr(K H L H) / (m-1)²`."""
    return float(np.vdot(centre(kernel), target)) / (len(kernel) - 1) ** 2


def unbiased_hsic(kernel: Array, target: Array) -> float:
    """Unbiased HSIC of Song et al.: `⟨U(K), U(L)⟩ / (m(m-3))`."""
    m = len(kernel)
    return float(np.vdot(hollow_centre(kernel), hollow_centre(target))) / (m * (m - 3))


def _cosine(a: Any, b: Any) -> float:
    product = norm(a) * norm(b)
    return inner(a, b) / product if product > 0.0 else 0.0
