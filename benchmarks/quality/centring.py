"""Compare centring the expected kernel by rows and columns with centring it by its mean.

python benchmarks/quality/centring.py [--seeds 20]
"""

import argparse

import numpy as np

from randsel._numerics.kernels import GAUSSIAN, median_gamma, squared_distances, u_centre
from randsel.contribution._sample import PairSums


def interaction_scores(X, y, centring):
    """First-order interaction scores (docs/explanation/mathematics.md, eq. 9) with Q centred one way or the other."""
    m = len(X)
    gamma = median_gamma(squared_distances(X))
    log_expected, _ = PairSums.from_columns(X).log_terms(gamma, GAUSSIAN.series)
    Q = np.exp(log_expected - log_expected[~np.eye(m, dtype=bool)].max())
    Q = u_centre(Q) if centring == "rows and columns" else Q - Q[~np.eye(m, dtype=bool)].mean()
    A = u_centre(np.outer(y, y) * Q)
    second, fourth = (X**2).sum(axis=0), (X**4).sum(axis=0)
    norm = np.sqrt(second**2 * (1 + 1 / ((m - 1) * (m - 2))) - fourth * m / (m - 2))
    return np.sqrt(m * (m - 3) / 2) * ((A @ X) * X).sum(axis=0) / (np.linalg.norm(A) * norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    print("First round, mean interaction score of the two XOR features (noise: mean 0, sd 1).\n")
    print("| columns | shape | Q centred by its mean | by rows and columns |\n|---|---|---|---|")
    for columns in ("uniform", "normal"):
        for n in (200, 1000, 2000):
            found = {"mean": [], "rows and columns": []}
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                X = rng.uniform(-1, 1, (300, n)) if columns == "uniform" else rng.normal(size=(300, n))
                y = np.sign(X[:, 0] * X[:, 1])
                X, y = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
                for centring, values in found.items():
                    values.append(interaction_scores(X, y, centring)[:2].mean())
            print(f"| {columns} | 300×{n} | {np.mean(found['mean']):.2f} | {np.mean(found['rows and columns']):.2f} |")


if __name__ == "__main__":
    main()
