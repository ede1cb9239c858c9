"""Multiple kernel learning by LPBoost: the unit ball of every kernel's function space is a class of weak learners.

With labels y = ±1 and a soft margin ν, the dual gives every sample a weight u (docs/mathematics.md, eq. 21):

    min β   subject to   Σ_i u_i y_i h_t(x_i) ≤ β for every weak learner h_t,   Σ u = 1,   0 ≤ u ≤ 1/(νm)

The best weak learner of kernel K for the weights u is `h = K(y∘u) / √((y∘u)ᵀ K (y∘u))`, and that root is its edge.
Learners are added until no kernel has an edge above β + ε.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from randsel._backend import Array

#: Learners and cap to weights of the samples, β, and the multipliers of the learners.
Solver = Callable[[Array, float], tuple[Array, float, Array]]
#: Negative eigenvalues up to this share of the largest are rounding.
INDEFINITE = 1e-6


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

    Learners are the best ones for weights halfway between those of the linear program and the best weights so far,
    whose largest edge is the smallest: it bounds the optimum from above, as β does from below. At the program's own
    weights, which jump from corner to corner, learners would help little. `solve` stands in for `solve_dual`.
    """
    solve = solve_dual if solve is None else solve
    m = len(y)
    cap = 1.0 / (nu * m)
    inside = np.full(m, 1.0 / m)
    learners: list[Array] = []  # y ∘ h, what the linear program sees of a weak learner
    parts: list[Array] = []  # its coefficients over the samples
    owners: list[int] = []
    beta, weights, above = -np.inf, np.zeros(0), np.inf
    # lengths of functions are of the order of the root of a kernel's diagonal
    enough = tol * float(np.sqrt(np.einsum("kii->ki", kernels).max()))
    u, n_iter = inside, 0
    while True:
        signed = y * u
        images = kernels @ signed
        edges = np.sqrt(np.maximum(images @ signed, 0.0))
        if edges.max() < above:
            inside, above = u, float(edges.max())
        if above - beta <= enough or n_iter == max_iter:
            break
        for k in np.flatnonzero((edges > beta) & (edges > 0.0)).tolist():
            learners.append(y * images[k] / edges[k])
            parts.append(signed / edges[k])
            owners.append(k)
        corner, beta, weights = solve(np.array(learners), cap)
        n_iter += 1
        u = 0.5 * (corner + inside)
    coefficients, kernel_weights = np.zeros((len(kernels), m)), np.zeros(len(kernels))
    for owner, part, weight in zip(owners, parts, weights, strict=False):
        coefficients[owner] += weight * part
        kernel_weights[owner] += weight
    return Boosted(coefficients, kernel_weights, inside, beta, above - beta, n_iter, above - beta <= enough)


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
    )
    if not found.success:
        msg = f"The linear program of LPBoost was not solved ({found.message}); scale the kernels, or raise nu."
        raise RuntimeError(msg)
    u = np.clip(found.x[:m], 0.0, cap)
    return u / u.sum(), float(found.x[m]), np.maximum(-found.ineqlin.marginals, 0.0)


def check_kernels(kernels: Array, m: int) -> Array:
    """Return a stack of kernels between m samples that are symmetric, finite, and positive but for rounding."""
    if kernels.ndim != 3:
        msg = f"Precomputed kernels need the shape (kernels, samples, samples), but X has shape {kernels.shape}."
        raise ValueError(msg)
    if kernels.shape[1] != kernels.shape[2] or kernels.shape[1] != m:
        msg = f"Precomputed kernels of shape {kernels.shape[1:]} are not square over the {m} samples of y."
        raise ValueError(msg)
    if not len(kernels):
        msg = "There are no kernels to combine: the stack is empty."
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
