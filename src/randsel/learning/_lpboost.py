"""Multiple kernel learning by LPBoost: the unit ball of every kernel's function space is a class of weak learners.

With labels y = ±1 and a soft margin ν, the dual gives every sample a weight u (docs/mathematics.md, eq. 21):

    min β   subject to   Σ_i u_i y_i h_t(x_i) ≤ β for every weak learner h_t,   Σ u = 1,   0 ≤ u ≤ 1/(νm)

The best weak learner of kernel K for the weights u is `h = K(y∘u) / √((y∘u)ᵀ K (y∘u))`, and that root is its edge.
Learners are added until no kernel has an edge above β + ε.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from randsel._utils.typing import Array

#: Learners and cap to weights of the samples, β, and the multipliers of the learners.
Solver = Callable[[Array, float], tuple[Array, float, Array]]
#: Negative eigenvalues up to this share of the largest are rounding.
INDEFINITE = 1e-6
#: Linear programs after which a learner that had no weight in any of them is dropped.
PATIENCE = 8
#: Steps that are looked at between the best weights and the linear program's; never none at all.
WAY = np.linspace(0.03, 1.0, 98)


@dataclass(frozen=True)
class Boosted:
    """A combination of kernels for one pair of classes.

    Attributes
    ----------
    coefficients
        Shape (kernels, samples): `f(x) = Σ_k Σ_i coefficients_ki κ_k(x_i, x)`.
    kernel_weights
        Per kernel, the weights of its weak learners together; they sum to one.
    sample_weights
        u, the best found.
    margin
        ρ, the soft margin of the primal.
    gap
        Largest edge of any kernel at these weights less β: how far from the optimum the margin can be.
    n_iter
        Linear programs solved.
    converged
        Whether the gap is within the tolerance.
    """

    coefficients: Array
    kernel_weights: Array
    sample_weights: Array
    margin: float
    gap: float
    n_iter: int
    converged: bool


def boost(kernels: Array, y: Array, nu: float, tol: float, max_iter: int, solve: Solver | None = None) -> Boosted:
    """Column generation over kernels, a stack of shape (kernels, samples, samples), for labels ±1.

    The best weights so far are those whose largest edge is the smallest: it bounds the optimum from above, as β does
    from below. Learners are the best ones for weights between those and the linear program's, where the largest edge is
    smallest. At the program's own weights, which jump from corner to corner, learners would help little.
    `solve` stands in for `solve_dual`.
    """
    solve = solve_dual if solve is None else solve
    m = len(y)
    cap = 1.0 / (nu * m)
    learners = _Learners(np.zeros((0, m)), np.zeros((0, m)), np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    beta, weights, above = -np.inf, np.zeros(0), np.inf
    # lengths of functions are of the order of the root of a kernel's diagonal
    enough = tol * float(np.sqrt(np.einsum("kii->ki", kernels).max()))
    u, n_iter = np.full(m, 1.0 / m), 0
    images = kernels @ (y * u)
    inside, images_inside = u, images
    while True:
        edges = np.sqrt(np.maximum(images @ (y * u), 0.0))
        if edges.max() < above:
            inside, images_inside, above = u, images, float(edges.max())
        if above - beta <= enough or n_iter == max_iter:
            break
        learners = learners.with_more(y, u, images, edges, beta)
        corner, beta, weights = solve(learners.values, cap)
        learners = learners.after(weights)
        n_iter += 1
        images_corner = kernels @ (y * corner)
        t = _step(y * inside, y * corner, images_inside, images_corner)
        u = t * corner + (1.0 - t) * inside
        images = t * images_corner + (1.0 - t) * images_inside
    coefficients, kernel_weights = np.zeros((len(kernels), m)), np.zeros(len(kernels))
    np.add.at(coefficients, learners.owners, weights[:, None] * learners.parts)
    np.add.at(kernel_weights, learners.owners, weights)
    return Boosted(coefficients, kernel_weights, inside, beta, above - beta, n_iter, above - beta <= enough)


@dataclass(frozen=True)
class _Learners:
    """Weak learners: `values` y∘h, `parts` their coefficients over the samples, their kernels, and how long unused."""

    values: Array
    parts: Array
    owners: Array
    idle: Array

    def with_more(self, y: Array, u: Array, images: Array, edges: Array, beta: float) -> "_Learners":
        """Add the best learner of every kernel whose edge is above β, and drop those long unused.

        What has no weight in a linear program can be left out of it without changing its value, so that β never falls.
        """
        keep, new = self.idle < PATIENCE, np.flatnonzero((edges > beta) & (edges > 0.0))
        return _Learners(
            np.vstack([self.values[keep], y * images[new] / edges[new, None]]),
            np.vstack([self.parts[keep], y * u / edges[new, None]]),
            np.append(self.owners[keep], new),
            np.append(self.idle[keep], np.zeros(len(new), dtype=int)),
        )

    def after(self, weights: Array) -> "_Learners":
        return replace(self, idle=np.where(weights > 0.0, 0, self.idle + 1))


def _step(inside: Array, corner: Array, images_inside: Array, images_corner: Array) -> float:
    """How far to go from the best weights to the linear program's: squared edges are parabolas along the way."""
    first, last, mixed = images_inside @ inside, images_corner @ corner, images_corner @ inside
    largest = (
        np.outer(first, (1.0 - WAY) ** 2) + np.outer(2.0 * mixed, WAY * (1.0 - WAY)) + np.outer(last, WAY**2)
    ).max(axis=0)
    return float(WAY[largest.argmin()])


def solve_dual(learners: Array, cap: float) -> tuple[Array, float, Array]:
    """Solve the dual: weights of the samples, β, and the multipliers of the learners."""
    count, m = learners.shape
    found = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.hstack([learners, -np.ones((count, 1))]),
        b_ub=np.zeros(count),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[*[(0.0, cap)] * m, (None, None)],
        method="highs",
        # a dense program that is always feasible: there is nothing to find before it is solved
        options={"presolve": False},
    )
    if not found.success:
        msg = f"The linear program of LPBoost was not solved ({found.message}); scale the kernels, or raise nu."
        raise RuntimeError(msg)
    u = np.clip(found.x[:m], 0.0, cap)
    return u / u.sum(), float(found.x[m]), np.maximum(-found.ineqlin.marginals, 0.0)


def stack_of(kernels: Any) -> Array:
    """Return kernels as one array of numbers; a list of them must be of one size."""
    if isinstance(kernels, Sequence):
        shapes = [np.shape(kernel) for kernel in kernels]
        other = next((k for k, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is not None:
            msg = (
                f"Kernel {other} is of shape {shapes[other]} and kernel 0 of shape {shapes[0]}; kernels that are "
                "combined must be between the same samples."
            )
            raise ValueError(msg)
    return np.asarray(kernels, dtype=np.float64)


def check_kernels(kernels: Array, m: int) -> Array:
    """Return a stack of kernels between m samples that are symmetric, finite, and positive but for rounding."""
    if not len(kernels):
        msg = "There are no kernels to combine: the stack is empty."
        raise ValueError(msg)
    if kernels.ndim != 3:
        msg = f"Precomputed kernels need the shape (kernels, samples, samples), but X has shape {kernels.shape}."
        raise ValueError(msg)
    if kernels.shape[1] != kernels.shape[2] or kernels.shape[1] != m:
        msg = f"Precomputed kernels of shape {kernels.shape[1:]} are not square over the {m} samples of y."
        raise ValueError(msg)
    for k, kernel in enumerate(kernels):
        size = float(np.abs(kernel).max())
        if not np.isfinite(size):
            msg = f"Kernel {k} holds NaN or infinity in {int((~np.isfinite(kernel)).sum())} places."
            raise ValueError(msg)
        if size == 0.0:
            msg = f"Kernel {k} is zero everywhere; leave it out."
            raise ValueError(msg)
        if np.abs(kernel - kernel.T).max() > 1e-8 * size:
            msg = f"Kernel {k} is not symmetric; a kernel between the training samples must be."
            raise ValueError(msg)
        values = np.linalg.eigvalsh(kernel)
        if values[0] < -INDEFINITE * values[-1]:
            msg = (
                f"Kernel {k} is indefinite: its eigenvalues go from {values[0]:.3g} to {values[-1]:.3g}. LPBoost needs "
                "functions of a positive kernel; add to its diagonal, or cut its negative eigenvalues off."
            )
            raise ValueError(msg)
    return kernels
