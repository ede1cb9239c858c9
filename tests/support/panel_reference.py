"""Literal twins of the models and measures of panels, which share no code with the package."""

import numpy as np


def ridge_predictions(Z, Y, new, penalty, weights, gamma=None):
    """Weighted kernel ridge regression with a free intercept: its stationary equations, solved as they are."""
    m = len(Z)

    def kernel(a, b):
        if gamma is None:
            return float(np.dot(a, b))
        return float(np.exp(-gamma * sum((x - z) ** 2 for x, z in zip(a, b, strict=True))))

    K = np.array([[kernel(a, b) for b in Z] for a in Z])
    # minimise Σ w_i ‖y_i - (K a)_i - b‖² + penalty · aᵀ K a: (K + penalty W⁻¹) a + 1 b = Y, 1ᵀ a = 0
    system = np.block([[K + penalty * np.diag(1 / weights), np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return np.array([[kernel(a, b) for b in Z] for a in new]) @ solution[:m] + solution[m]


def penalised_cox_gradient(time, event, Z, beta, penalty):
    """Gradient of Breslow's log partial likelihood less penalty/2 · ‖β‖², event by event."""
    gradient = -penalty * np.asarray(beta, dtype=float)
    for i in np.flatnonzero(event):
        at_risk = [j for j in range(len(time)) if time[j] >= time[i]]
        risks = np.array([np.exp(Z[j] @ beta) for j in at_risk])
        gradient = gradient + Z[i] - (risks[:, None] * Z[at_risk]).sum(axis=0) / risks.sum()
    return gradient


def calibration_loss(outputs, codes, slope, offsets):
    """Mean cross-entropy of Platt's smoothed labels."""
    n_classes, total = outputs.shape[1], 0.0
    for row, code in zip(outputs, codes, strict=True):
        size = int(np.sum(codes == code))
        exponentials = np.exp(slope * row + offsets)
        for k in range(n_classes):
            weight = (size + 1 if k == code else 1) / (size + n_classes)
            total -= weight * np.log(exponentials[k] / exponentials.sum())
    return total / len(codes)


def auc_of_pairs(scores, positive):
    """Fraction of pairs of a positive and a negative sample whose scores are in order; ties count one half."""
    pairs = [(a, b) for a in scores[positive] for b in scores[~positive]]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def newcombe_limits(area, n_positive, n_negative):
    """Limits of Newcombe's interval on a fine grid: the areas that the observed one does not reject."""
    grid = np.linspace(0.0, 1.0, 100_001)
    star = (n_positive + n_negative) / 2 - 1
    variance = grid * (1 - grid) * (1 + star * (1 - grid) / (2 - grid) + star * grid / (1 + grid))
    accepted = grid[np.abs(grid - area) <= 1.959963985 * np.sqrt(variance / (n_positive * n_negative))]
    return accepted.min(), accepted.max()


def concordance_and_variance(time, event, risks):
    """Concordance index, and its variance as a ratio of sums over pairs, by loops."""
    m = len(time)
    a, b = np.zeros(m), np.zeros(m)
    for i in range(m):
        for j in range(m):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                value = 1.0 if risks[i] > risks[j] else 0.5 if risks[i] == risks[j] else 0.0
                for k in (i, j):
                    a[k] += value
                    b[k] += 1.0
    index = a.sum() / b.sum()
    return index, 4.0 * sum((a - index * b) ** 2) / b.sum() ** 2
