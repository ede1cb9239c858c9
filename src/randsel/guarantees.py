"""Numbers of samples and bootstraps that suffice to keep every influential feature with high probability.

The paper calls a feature η-influential if its contribution is at least η, but does not analyse how much data is needed
to estimate contributions. The bounds here are Hoeffding's inequalities for U-statistics and for means of bounded
independent draws (Hoeffding 1963), combined by a union bound over features and rounds;
docs/explanation/mathematics.md derives them.

All functions assume:

* labels are ±1 (or bounded by 1) and not centred by their sample mean; contributions are the unnormalised ones of the
  paper's definition, means over pairs of different samples, each value between -1 and 1;
* samples are independent and identically distributed;
* the contribution of an influential feature is at least η in every round, over the remaining features. It cannot
  exceed ½, the largest probability that two labels differ, so a larger η is refused;
* the bandwidth and the scaling of the features are known, not estimated from the same samples;
* the features that remain in a round do not depend on the samples that the round is estimated from. This holds for
  the first round, and for all rounds if each uses new samples. `RandSel` uses the same samples in all rounds: later
  rounds are then covered only if other samples would have left the same features.

The bounds hold for every distribution; real data need far fewer samples.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Plan", "bootstraps_needed", "failure_probability", "plan", "samples_needed"]

#: A contribution is at most the probability that two independent labels differ, 2p(1 - p), which is largest at p = 1/2.
LARGEST_CONTRIBUTION = 0.5


@dataclass(frozen=True)
class Plan:
    """Numbers of samples and bootstraps that keep the failure probability below `delta`.

    Examples
    --------
    >>> from randsel import guarantees
    >>> guarantees.plan(0.3, 0.05).n_samples
    656
    """

    n_samples: int
    n_bootstraps: int
    failure_probability: float


def failure_probability(
    n_samples: int,
    eta: float,
    *,
    n_bootstraps: int | None = None,
    n_influential: int = 1,
    n_rounds: int = 1,
    n_features: int | None = None,
    share: float = 0.5,
) -> float:
    """Return a bound on the probability of a failure (see `n_features`) in any round.

    Parameters
    ----------
    n_samples : int
        Samples from which each round is estimated.
    eta : float
        Smallest contribution of an influential feature, in (0, 1/2]: no contribution is larger.
    n_bootstraps : int, default=None
        Draws of each kind (r of Algorithm 1). None: the exact estimator, which has only the sampling error.
    n_influential, n_rounds : int
        Influential features k, rounds T.
    n_features : int, default=None
        None: a failure is an influential feature whose estimate is not positive. A number: all features that are not
        influential have a contribution of at most 0, and a failure is such a feature that is not ranked below all
        influential ones, so that culling could drop an influential feature (the paper's theorem).
    share : float
        Fraction of the margin allotted to the sampling error; the remainder is for the draws.

    Returns
    -------
    float
        Bound on the failure probability, at most 1.

    Examples
    --------
    >>> from randsel import guarantees
    >>> round(guarantees.failure_probability(2000, 0.2, n_influential=5, n_rounds=10), 7)
    1e-07
    """
    margin, events = _margin_and_events(eta, 0.5, share, n_influential, n_rounds, n_features)
    if n_bootstraps is None:
        return float(min(1.0, events * np.exp(-(n_samples // 2) * margin**2 / 2)))
    sampling = np.exp(-(n_samples // 2) * (share * margin) ** 2 / 2)
    return float(min(1.0, events * (sampling + 2 * np.exp(-n_bootstraps * _rate(margin, share)))))


def samples_needed(
    eta: float,
    delta: float,
    *,
    n_influential: int = 1,
    n_rounds: int = 1,
    n_features: int | None = None,
    bootstrap: bool = False,
    share: float = 0.5,
) -> int:
    """Return the smallest number of samples for which the bound on the failure probability is at most `delta`.

    With `bootstrap=True`, half of `delta` and the fraction `share` of the margin are allotted to the samples, and the
    remainder to the draws (`bootstraps_needed`). The other parameters are those of `failure_probability`.

    Examples
    --------
    >>> from randsel import guarantees
    >>> guarantees.samples_needed(0.2, 0.05, n_influential=5, n_rounds=10)
    692
    """
    margin, events = _margin_and_events(eta, delta, share, n_influential, n_rounds, n_features)
    margin *= share if bootstrap else 1.0
    return 2 * int(np.ceil(2 / margin**2 * np.log(events * (2 if bootstrap else 1) / delta)))


def bootstraps_needed(
    eta: float,
    delta: float,
    *,
    n_influential: int = 1,
    n_rounds: int = 1,
    n_features: int | None = None,
    share: float = 0.5,
) -> int:
    """Return the smallest number of draws of each kind whose part of the bound is at most `delta / 2`.

    A draw of the larger subsets contains a feature with probability at least ½, and a draw of the smaller ones lacks it
    with probability at least ½. The bound accounts for the random number of informative draws (eq. 23).

    Examples
    --------
    >>> from randsel import guarantees
    >>> guarantees.bootstraps_needed(0.3, 0.05, n_influential=2, n_rounds=10)
    5251
    """
    margin, events = _margin_and_events(eta, delta, share, n_influential, n_rounds, n_features)
    return int(np.ceil(np.log(4 * events / delta) / _rate(margin, share)))


def plan(eta: float, delta: float, *, n_influential: int = 1, n_rounds: int = 1, n_features: int | None = None) -> Plan:
    """Return the numbers of samples and bootstraps that Algorithm 1 needs.

    Examples
    --------
    >>> from randsel import guarantees
    >>> guarantees.plan(0.3, 0.05, n_influential=2, n_rounds=10)  # doctest: +ELLIPSIS
    Plan(n_samples=1190, n_bootstraps=5251, failure_probability=0.04...)
    """
    counts: dict[str, Any] = {"n_influential": n_influential, "n_rounds": n_rounds, "n_features": n_features}
    n_samples = samples_needed(eta, delta, bootstrap=True, **counts)
    n_bootstraps = bootstraps_needed(eta, delta, **counts)
    return Plan(n_samples, n_bootstraps, failure_probability(n_samples, eta, n_bootstraps=n_bootstraps, **counts))


def _rate(margin: float, share: float) -> float:
    """Return `-log E exp(-N t²/2)` per draw (eq. 23); each draw is among the N informative ones with probability ½."""
    t = (1 - share) * margin / 2
    return float(-np.log1p(np.expm1(-t * t / 2) / 2))


def _margin_and_events(
    eta: float, delta: float, share: float, n_influential: int, n_rounds: int, n_features: int | None
) -> tuple[float, int]:
    """Check the parameters; return the error that an estimate may have, and the number of events in the union bound."""
    for name, value in (("delta", delta), ("share", share)):
        if not 0 < value < 1:
            raise ValueError(f"{name}={value!r} must lie between 0 and 1.")
    if not 0 < eta <= LARGEST_CONTRIBUTION:
        raise ValueError(
            f"eta={eta!r} must lie above 0 and be at most 1/2, because no contribution is larger; take the smallest "
            "contribution that matters to you, such as 0.1."
        )
    if eta < 1e-6:
        raise ValueError(f"eta={eta!r} is too small to plan for; contributions that matter are above 1e-6.")
    for name, count in (("n_influential", n_influential), ("n_rounds", n_rounds), ("n_features", n_features)):
        if count is not None and count < 1:
            raise ValueError(f"{name}={count!r} must be at least 1.")
    if n_features is not None and n_features < n_influential:
        raise ValueError(f"n_features={n_features} must be at least n_influential={n_influential}.")
    if n_features is None:
        return eta, n_influential * n_rounds
    return eta / 2, n_features * n_rounds
