"""Multiple kernel learning by LPBoost: the weak learners of a kernel are the unit ball of its function space.

With labels y = ±1 and a soft margin ν, the dual gives every sample a weight u (eq. 21 of
docs/explanation/mathematics.md):

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

#: Signature of `solve_dual`.
Solver = Callable[[Array, float], tuple[Array, float, Array]]
#: Negative eigenvalues up to this fraction of the largest one count as rounding errors.
INDEFINITE = 1e-6
#: A learner is dropped when it had no weight in this many linear programs.
PATIENCE = 8
#: Step sizes from the best weights to those of the linear program; zero is left out, as it would change nothing.
STEPS = np.linspace(0.03, 1.0, 98)


@dataclass(frozen=True)
class Combination:
    """A combination of kernels for one binary problem: `f(x) = Σ_k Σ_i coefficients_ki κ_k(x_i, x)`."""

    coefficients: Array
    kernel_weights: Array  # sums of the weights of a kernel's weak learners
    sample_weights: Array  # the weights u that minimise the largest edge
    margin: float  # ρ, the soft margin of the primal
    gap: float  # largest edge at these weights minus β: bounds the distance of the margin from the optimum
    n_iter: int  # linear programs solved
    converged: bool  # whether the gap is within the tolerance


def solve_dual(margins: Array, cap: float) -> tuple[Array, float, Array]:
    """Solve the dual for the margins of some learners (rows) and the maximum weight of a sample.

    Return the weights of the samples, β, and the multipliers of the learners.
    """
    n_learners, m = margins.shape
    solution = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.hstack([margins, -np.ones((n_learners, 1))]),
        b_ub=np.zeros(n_learners),
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[*[(0.0, cap)] * m, (None, None)],
        method="highs",
        # presolving gains nothing on a dense program that is always feasible
        options={"presolve": False},
    )
    if not solution.success:
        raise RuntimeError(
            f"The linear program of LPBoost was not solved ({solution.message}); scale the kernels, or raise nu."
        )
    u = np.clip(solution.x[:m], 0.0, cap)
    return u / u.sum(), float(solution.x[m]), np.maximum(-solution.ineqlin.marginals, 0.0)


def boost(kernels: Array, y: Array, nu: float, tol: float, max_iter: int, solve: Solver = solve_dual) -> Combination:
    """Combine kernels, a stack of shape (kernels, samples, samples), by column generation, for labels ±1.

    The largest edge at any weights is an upper bound of the optimum, and β is a lower bound; the best weights have the
    smallest upper bound. New learners are fitted to the weights between the best ones and those of the linear program
    that minimise the largest edge: the program's weights jump from vertex to vertex, and learners fitted to them would
    help little.
    """
    m = len(y)
    cap = 1.0 / (nu * m)
    learners = _Learners(np.zeros((0, m)), np.zeros((0, m)), np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    beta, learner_weights, upper_bound = -np.inf, np.zeros(0), np.inf
    # the norm of a function is of the order of the root of a kernel's diagonal
    tolerance = tol * float(np.sqrt(np.einsum("kii->ki", kernels).max()))
    u, n_iter = np.full(m, 1.0 / m), 0
    images = kernels @ (y * u)  # of each kernel: K(y∘u), its best learner times its edge
    best_u, best_images = u, images
    while True:
        edges = np.sqrt(np.maximum(images @ (y * u), 0.0))
        if edges.max() < upper_bound:
            best_u, best_images, upper_bound = u, images, float(edges.max())
        if upper_bound - beta <= tolerance or n_iter == max_iter:
            break
        learners = learners.extend(y, u, images, edges, beta)
        vertex, beta, learner_weights = solve(learners.margins, cap)
        learners = replace(learners, unused=np.where(learner_weights > 0.0, 0, learners.unused + 1))
        n_iter += 1
        vertex_images = kernels @ (y * vertex)
        t = _best_step(y * best_u, y * vertex, best_images, vertex_images)
        u = t * vertex + (1.0 - t) * best_u
        images = t * vertex_images + (1.0 - t) * best_images
    coefficients, kernel_weights = np.zeros((len(kernels), m)), np.zeros(len(kernels))
    np.add.at(coefficients, learners.kernels, learner_weights[:, None] * learners.coefficients)
    np.add.at(kernel_weights, learners.kernels, learner_weights)
    gap = upper_bound - beta
    return Combination(coefficients, kernel_weights, best_u, beta, gap, n_iter, gap <= tolerance)


@dataclass(frozen=True)
class _Learners:
    """Weak learners: margins y∘h, coefficients of the samples, kernel, and number of programs since the last weight."""

    margins: Array
    coefficients: Array
    kernels: Array
    unused: Array

    def extend(self, y: Array, u: Array, images: Array, edges: Array, beta: float) -> "_Learners":
        """Add the best learner of every kernel whose edge is above β, and drop those unused for `PATIENCE` programs.

        Leaving out a learner without weight does not change the value of a linear program, so β never decreases.
        """
        keep, new = self.unused < PATIENCE, np.flatnonzero((edges > beta) & (edges > 0.0))
        return _Learners(
            np.vstack([self.margins[keep], y * images[new] / edges[new, None]]),
            np.vstack([self.coefficients[keep], y * u / edges[new, None]]),
            np.append(self.kernels[keep], new),
            np.append(self.unused[keep], np.zeros(len(new), dtype=int)),
        )


def _best_step(best: Array, vertex: Array, best_images: Array, vertex_images: Array) -> float:
    """Return the step from the best weights to the vertex that minimises the largest squared edge, a quadratic.

    `best` and `vertex` are the weights times the labels.
    """
    at_best, at_vertex, mixed = best_images @ best, vertex_images @ vertex, vertex_images @ best
    squared_edges = np.outer(at_best, (1.0 - STEPS) ** 2) + np.outer(2.0 * mixed, STEPS * (1.0 - STEPS))
    squared_edges += np.outer(at_vertex, STEPS**2)
    return float(STEPS[squared_edges.max(axis=0).argmin()])


def stack_kernels(kernels: Any) -> Array:
    """Return kernels as one array; raise ValueError if the kernels of a list differ in shape."""
    if isinstance(kernels, Sequence):
        shapes = [np.shape(kernel) for kernel in kernels]
        other = next((k for k, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is not None:
            raise ValueError(
                f"Kernel {other} is of shape {shapes[other]} and kernel 0 of shape {shapes[0]}; kernels that are "
                "combined must be between the same samples."
            )
    return np.asarray(kernels, dtype=np.float64)


def check_kernels(kernels: Array, m: int) -> None:
    """Raise an error unless every kernel between m samples is finite, symmetric and positive semi-definite."""
    if not len(kernels):
        raise ValueError("There are no kernels to combine: the stack is empty.")
    if kernels.ndim != 3:
        raise ValueError(
            f"Precomputed kernels need the shape (kernels, samples, samples), but X has shape {kernels.shape}."
        )
    if kernels.shape[1] != kernels.shape[2] or kernels.shape[1] != m:
        raise ValueError(f"Precomputed kernels of shape {kernels.shape[1:]} are not square over the {m} samples of y.")
    for k, kernel in enumerate(kernels):
        size = float(np.abs(kernel).max())
        if not np.isfinite(size):
            raise ValueError(f"Kernel {k} holds NaN or infinity in {int((~np.isfinite(kernel)).sum())} places.")
        if size == 0.0:
            raise ValueError(f"Kernel {k} is zero everywhere; leave it out.")
        if np.abs(kernel - kernel.T).max() > 1e-8 * size:
            raise ValueError(f"Kernel {k} is not symmetric; a kernel between the training samples must be.")
        values = np.linalg.eigvalsh(kernel)
        if values[0] < -INDEFINITE * values[-1]:
            raise ValueError(
                f"Kernel {k} is indefinite: its eigenvalues go from {values[0]:.3g} to {values[-1]:.3g}. LPBoost needs "
                "functions of a positive kernel; add to its diagonal, or cut its negative eigenvalues off."
            )
