"""The paper, transcribed slowly and literally, and the closed forms by enumeration. Shares no code with the package."""

import itertools
from math import comb, sqrt

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm, rankdata


def kernel(X, gamma):
    """Gaussian kernel by the definition."""
    return np.exp(-gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))


def cauchy_kernel(X, gamma):
    """Product over the features of 1 / (1 + γ d)."""
    return np.prod(1 / (1 + gamma * (X[:, None, :] - X[None, :, :]) ** 2), axis=2)


def centred(K):
    """C = [I - 11ᵀ/m] K [I - 11ᵀ/m]."""
    m = len(K)
    H = np.eye(m) - np.ones((m, m)) / m
    return H @ K @ H


def alignment(K, L):
    """Centred kernel target alignment with Frobenius norms."""
    C, D = centred(K), centred(L)
    return (C * D).sum() / (np.sqrt((C**2).sum()) * np.sqrt((D**2).sum()))


def draw_value(X, Y, gamma, columns, rows):
    """alignment(X_i, Y_i) of Algorithm 1."""
    part = X[np.ix_(rows, columns)]
    return alignment(kernel(part, gamma), Y[rows] @ Y[rows].T)


def algorithm_1(X, Y, gamma, draws, draws_plus):
    """Contributions of one round: mean of a⁺ with j in, less mean of a with j out."""
    a = [draw_value(X, Y, gamma, columns, rows) for columns, rows in draws]
    a_plus = [draw_value(X, Y, gamma, columns, rows) for columns, rows in draws_plus]
    contributions = []
    for j in range(X.shape[1]):
        inside = [value for value, (columns, _) in zip(a_plus, draws_plus, strict=True) if j in columns]
        outside = [value for value, (columns, _) in zip(a, draws, strict=True) if j not in columns]
        contributions.append(np.mean(inside) - np.mean(outside))
    return np.array(contributions)


def pair_mean(K, L, weights=None):
    """Mean of K∘L over pairs of different rows."""
    m = len(K)
    w = np.ones(m) if weights is None else weights
    total, norm = 0.0, 0.0
    for p in range(m):
        for q in range(m):
            if p != q:
                total += w[p] * w[q] * K[p, q] * L[p, q]
                norm += w[p] * w[q]
    return total / norm


def centred_target(Y, weights=None):
    """H_w Y Yᵀ H_wᵀ with the weighted mean."""
    w = np.full(len(Y), 1 / len(Y)) if weights is None else weights / weights.sum()
    Z = Y - (w[:, None] * Y).sum(axis=0)
    return Z @ Z.T


def contributions_by_enumeration(X, L, gamma, weights=None, fixed=(), kernel=kernel):
    """E over S with i minus E over S without i; S contains each free feature with probability ½ and all fixed ones."""
    n = X.shape[1]
    result = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i and j not in fixed]
        always = [j for j in fixed if j != i]
        for bits in itertools.product([False, True], repeat=len(others)):
            S = always + [j for j, bit in zip(others, bits, strict=True) if bit]
            with_i = pair_mean(kernel(X[:, [*S, i]], gamma), L, weights)
            without = pair_mean(kernel(X[:, S], gamma), L, weights)
            result[i] += (with_i - without) / 2 ** len(others)
    return result


def fixed_size_contributions(X, L, gamma):
    """The paper's definition: subsets of size ⌊n/2⌋+1 with i against ⌊n/2⌋ without, by elementary symmetric sums."""
    m, n = X.shape
    half = n // 2
    z = np.exp(-gamma * (X[:, None, :] - X[None, :, :]) ** 2)
    off = ~np.eye(m, dtype=bool)
    result = np.zeros(n)
    for i in range(n):
        e = np.zeros((half + 1, m, m))
        e[0] = 1.0
        for j in range(n):
            if j != i:
                for k in range(half, 0, -1):
                    e[k] = e[k] + z[:, :, j] * e[k - 1]
        mean_without = e[half] / comb(n - 1, half)
        result[i] = (L * mean_without * (z[:, :, i] - 1.0))[off].mean()
    return result


def hollow(M):
    """U-centring entry by entry."""
    m = len(M)
    A = M.copy()
    for p in range(m):
        A[p, p] = 0.0
    rows = A.sum(axis=1)
    U = np.zeros((m, m))
    for p in range(m):
        for q in range(m):
            if p != q:
                U[p, q] = A[p, q] - rows[p] / (m - 2) - rows[q] / (m - 2) + rows.sum() / ((m - 1) * (m - 2))
    return U


def scores(X, L, gamma):
    """Main and interaction scores by their definition, matrix by matrix."""
    m, n = X.shape
    d = (X[:, None, :] - X[None, :, :]) ** 2
    Q = np.prod((1 + np.exp(-gamma * d)) / 2, axis=2)
    main, interaction = hollow(L), hollow(L * hollow(Q))
    result = np.zeros((2, n))
    for i in range(n):
        T = hollow(-2 * np.tanh(gamma * d[:, :, i] / 2))
        mean_tanh = np.tanh(gamma * d[:, :, i] / 2).sum() / (m * (m - 1))
        total = (L * Q).sum() - np.trace(L * Q)
        own = total * (T**2).sum() / (2 * (1 + mean_tanh) * m * (m - 3))
        for row, (A, mean) in enumerate(((main, 0.0), (interaction, own))):
            form = (A * T).sum() - mean
            result[row, i] = form / np.sqrt((A**2).sum() * (T**2).sum()) * np.sqrt(m * (m - 3) / 2)
    return result


def cubic_forms(X, gamma, a, b, left, right):
    """Σ_pq (Σ_c left_pc right_qc) (a u - b u³) with u = γ (x_p - x_q)², pair by pair, for every column."""
    result = np.zeros(X.shape[1])
    for i, x in enumerate(X.T):
        for p in range(len(x)):
            for q in range(len(x)):
                u = gamma * (x[p] - x[q]) ** 2
                result[i] += (left[p] @ right[q]) * (a[i] * u - b[i] * u**3)
    return result


def unbiased_hsic(K, L):
    """Formula of Song et al. (2012), equation 4."""
    m = len(K)
    A, B = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    one = np.ones(m)
    first = np.trace(A @ B)
    second = (one @ A @ one) * (one @ B @ one) / ((m - 1) * (m - 2))
    third = 2 / (m - 2) * (one @ A @ B @ one)
    return (first + second - third) / (m * (m - 3))


RANK_SCORES = {"rank": lambda p: 12**0.5 * (p - 0.5) + norm.ppf(p), "normal": norm.ppf}


def rank_scores(X, scale="normal"):
    """Score of (rank - ½)/m with midranks, column by column, to mean zero and standard deviation one."""
    scores = np.zeros(X.shape)
    for j, x in enumerate(X.T):
        quantiles = RANK_SCORES[scale]((rankdata(x) - 0.5) / len(x))
        scores[:, j] = (quantiles - quantiles.mean()) / quantiles.std()
    return scores


def weighted_rank_scores(X, weights, scale="normal"):
    """Score of the weight of smaller values and half that of equal ones; mean zero, weighted standard deviation one."""
    m, n = X.shape
    scores = np.zeros((m, n))
    for j in range(n):
        for p in range(m):
            below = sum(weights[q] for q in range(m) if X[q, j] < X[p, j])
            equal = sum(weights[q] for q in range(m) if X[q, j] == X[p, j])
            scores[p, j] = RANK_SCORES[scale]((below + equal / 2) / sum(weights))
        mean = np.average(scores[:, j], weights=weights)
        deviation = np.sqrt(np.average((scores[:, j] - mean) ** 2, weights=weights))
        scores[:, j] = (scores[:, j] - scores[:, j].mean()) / deviation
    return scores


def neutral_rank_scores(X, weights=None, scale="normal"):
    """Rank scores of the observed values of each column; NaN gets their weighted mean; mean zero."""
    weights = np.ones(len(X)) if weights is None else weights
    scores = np.zeros(X.shape)
    for j, x in enumerate(X.T):
        seen = [p for p in range(len(x)) if x[p] == x[p]]
        observed = weighted_rank_scores(x[seen][:, None], weights[seen], scale)[:, 0]
        scores[:, j] = np.average(observed, weights=weights[seen])
        scores[seen, j] = observed
        scores[:, j] -= scores[:, j].mean()
    return scores


def neutral_z_scores(X, weights=None):
    """Observed values less their weighted mean, over their weighted deviation; NaN is 0; then mean zero."""
    weights = np.ones(len(X)) if weights is None else weights
    scores = np.zeros(X.shape)
    for j, x in enumerate(X.T):
        seen = [p for p in range(len(x)) if x[p] == x[p]]
        mean = np.average(x[seen], weights=weights[seen])
        scores[seen, j] = (x[seen] - mean) / np.sqrt(np.average((x[seen] - mean) ** 2, weights=weights[seen]))
        scores[:, j] -= scores[:, j].mean()
    return scores


def neutral_rank_functions(x, n_functions):
    """Rank functions of the observed values, and 0 for NaN."""
    seen = [p for p in range(len(x)) if x[p] == x[p]]
    functions = np.zeros((n_functions, len(x)))
    functions[:, seen] = rank_functions(x[seen], n_functions)
    return functions


def pair_statistic(f, g, Y, omega):
    """Σ_ab ω_a ω_b Σ_c (y_cᵀ[f_a∘g_b])² / m, term by term."""
    total = 0.0
    for a in range(len(f)):
        for b in range(len(g)):
            for c in range(Y.shape[1]):
                total += omega[a] * omega[b] * sum(Y[:, c] * f[a] * g[b]) ** 2
    return total / len(Y)


def projected_products(f, g, omega):
    """Products of the functions of two features, main effects projected out, of mean square ω_a ω_b."""
    m = f.shape[1]
    nuisance = np.vstack([np.ones(m), f, g]).T
    rows = []
    for a in range(len(f)):
        for b in range(len(g)):
            v = f[a] * g[b]
            v = v - nuisance @ np.linalg.lstsq(nuisance, v, rcond=None)[0]
            rows.append(v / np.sqrt(np.mean(v**2)) * np.sqrt(omega[a] * omega[b]))
    return np.array(rows)


def form(V, Y):
    """Σ_c |V y_c|², and its weights for exchangeable residuals and for residuals of unequal variance."""
    m, n_outputs = Y.shape
    statistic = sum((V @ Y[:, c]) @ (V @ Y[:, c]) for c in range(n_outputs))
    covariance = np.linalg.eigvalsh(Y.T @ Y / (m - 1))
    even = np.kron(np.linalg.eigvalsh(V @ V.T), covariance)
    uneven = np.concatenate([np.linalg.eigvalsh(V @ np.diag(Y[:, c] ** 2) @ V.T) for c in range(n_outputs)])
    return statistic, even, uneven


def expected_kernel(X, gamma):
    """Expected kernel of a random subset that every column enters with probability one half (eq. 2)."""
    Q = np.ones((len(X), len(X)))
    for x in X.T:
        Q *= (1 + np.exp(-gamma * (x[:, None] - x[None, :]) ** 2)) / 2
    return Q


def gaussian_kernel(X, gamma):
    """Return exp(-gamma ‖x - x'‖²) for all pairs of rows."""
    return np.exp(-gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))


def kernel_with_fixed(X, fixed, gamma, weights):
    """Return the expected kernel with some features in every subset, plus a kernel of these alone.

    The second kernel has the same mean eigenvalue, and the (weighted) median bandwidth of the distances.
    """
    m = len(X)
    Q = expected_kernel(X[:, ~fixed], gamma) * gaussian_kernel(X[:, fixed], gamma)
    distances = ((X[:, None, fixed] - X[None, :, fixed]) ** 2).sum(axis=2)
    pairs = [(distances[p, q], weights[p] * weights[q]) for p in range(m) for q in range(m) if p != q]
    smallest = weights.min() ** 2  # weights are multiples of the smallest
    repeated = np.repeat([d for d, _ in pairs], [round(w / smallest) for _, w in pairs])
    second = gaussian_kernel(X[:, fixed], 1 / np.median(repeated))
    centre = np.eye(m) - 1 / m
    first_trace, second_trace = (np.trace(centre @ K @ centre) for K in (Q, second))
    return Q + second * first_trace / second_trace


def ridge_objective(K, y, penalty, weights):
    """Smallest weighted sum of squared residuals plus penalty, over functions of the kernel and an intercept."""
    m = len(y)
    # Stationary points: W (y - K a - b) = penalty a, and the weighted residuals sum to zero.
    system = np.zeros((m + 1, m + 1))
    system[:m, :m] = K + penalty * np.diag(1 / weights)
    system[:m, m] = 1.0
    system[m, :m] = 1.0
    solution = np.linalg.solve(system, np.append(y, 0.0))
    a, b = solution[:m], solution[m]
    residual = y - K @ a - b
    return weights @ residual**2 + penalty * a @ K @ a, a, b


def ridge_penalty(K, ridge, weights):
    """Penalty λτ: τ is the mean eigenvalue of the kernel, centred and scaled by the weights (eq. 14)."""
    m, root = len(K), np.sqrt(weights)
    P = np.eye(m) - np.outer(root, root) / weights.sum()
    return ridge * np.trace(P @ (root[:, None] * K * root) @ P) / m


def left_out_errors(K, Y, penalty, weights, groups):
    """Weighted squared error of every sample, predicted by a fit without its group."""
    squares = np.zeros(len(Y))
    for group in np.unique(groups):
        out = groups == group
        for y in Y.T:
            _, a, b = ridge_objective(K[np.ix_(~out, ~out)], y[~out], penalty, weights[~out])
            squares[out] += weights[out] * (y[out] - K[np.ix_(out, ~out)] @ a - b) ** 2
    return squares


def left_out_errors_given(Z, K, y, penalty, weights, groups):
    """Errors of samples, predicted without their group by a kernel and free coefficients of Z (eq. 15').

    Each is multiplied by the root of the fraction of variance that Z, apart from a constant, leaves in the group.
    """
    squares, roots = np.zeros(len(y)), np.sqrt(weights)
    H = np.diag(roots) @ Z @ np.linalg.inv(Z.T @ np.diag(weights) @ Z) @ Z.T @ np.diag(roots)
    left = np.eye(len(y)) - H + np.outer(roots, roots) / weights.sum()
    for group in np.unique(groups):
        out = groups == group
        inside, rank = ~out, Z.shape[1]
        top = np.hstack([K[np.ix_(inside, inside)] + penalty * np.diag(1 / weights[inside]), Z[inside]])
        system = np.vstack([top, np.hstack([Z[inside].T, np.zeros((rank, rank))])])
        solution = np.linalg.solve(system, np.concatenate([y[inside], np.zeros(rank)]))
        error = roots[out] * (y[out] - K[np.ix_(out, inside)] @ solution[:-rank] - Z[out] @ solution[-rank:])
        values, vectors = np.linalg.eigh(left[np.ix_(out, out)])
        squares[out] = (vectors @ np.diag(np.sqrt(values)) @ vectors.T @ error) ** 2
    return squares * (len(y) - Z.shape[1] + 1) / len(y)


def rank_functions(x, n_functions):
    """Rank functions without rare levels: a monotone score and cosines of the midranks, by Gram–Schmidt (eq. 16)."""
    m = len(x)
    ranks = [(sum(x[q] < x[p] for q in range(m)) + sum(x[q] == x[p] for q in range(m)) / 2) / m for p in range(m)]
    raw = [np.array([np.sqrt(12) * (r - 0.5) + norm.ppf(r) for r in ranks])]
    raw += [np.array([np.cos(a * np.pi * r) for r in ranks]) for a in range(2, n_functions + 1)]
    basis = []
    for row in raw:
        earlier = np.array([np.ones(m), *basis]).T
        left = row - earlier @ np.linalg.lstsq(earlier, row, rcond=None)[0]
        basis.append(left / np.sqrt(np.mean(left**2)))
    return np.array(basis)


def heavy_score(first):
    """Signed squares of the first function of a feature, of mean zero and mean square one (eq. 16a)."""
    squares = np.array([x * abs(x) for x in first])
    squares = squares - squares.mean()
    return squares / np.sqrt(np.mean(squares**2))


def residual_of(row, fixed):
    """Residual of a row in a regression on a constant and on the rows of `fixed`."""
    Z = np.vstack([np.ones(len(row)), *fixed]).T
    return row - Z @ np.linalg.lstsq(Z, row, rcond=None)[0]


def member_functions(members, max_degree):
    """Functions of members, signed squares, and products of functions of two members, by total degree (eq. 24)."""
    rows = []
    for degree in range(1, max_degree + 1):
        for f in members:
            if degree <= len(f):
                rows.append(f[degree - 1])
        if degree == 3:
            rows += [np.array([x * abs(x) for x in f[0]]) for f in members]
        for i in range(len(members)):
            for j in range(i + 1, len(members)):
                for a in range(1, degree):
                    if a <= len(members[i]) and degree - a <= len(members[j]):
                        rows.append(members[i][a - 1] * members[j][degree - a - 1])
    return np.array(rows)


def conditional_score(f, members, fixed, y):
    """Largest squared correlation of y with a function, or product with a smooth one of a member, given `fixed`."""
    products = list(f) + [h * g for h in f[:2] for member in members for g in member[:2]]
    e, squares = residual_of(y, fixed), []
    for product in products:
        left = residual_of(product, fixed)
        squares.append(np.dot(left, e) ** 2 / (np.dot(left, left) * np.dot(e, e)))
    return max(squares)


def permutation_sums(a, e, strata):
    """Return Σ_i a_i e_π(i) for all permutations π within strata."""
    sums = np.zeros(1)
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        within = [a[rows] @ e[list(order)] for order in itertools.permutations(rows)]
        sums = (sums[:, None] + np.array(within)).ravel()
    return sums


def label_sums(a, labels, strata):
    """Return the sum of a over every set of samples with as many samples of each stratum as have labels."""
    sums = np.zeros(1)
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        chosen = itertools.combinations(rows, int(labels[rows].sum()))
        sums = (sums[:, None] + np.array([a[list(c)].sum() for c in chosen])).ravel()
    return sums


def label_p_value(a, labels, strata):
    """Twice the fraction of label sets whose sum is at least as extreme on the observed side, at most one."""
    sums, observed = label_sums(a, labels, strata), a @ labels
    side = np.sign(observed)
    return min(1.0, 2 * np.mean(side * sums >= side * observed - 1e-9))


def arrangement_share(pvalue_of, classes):
    """Share of all arrangements of the classes among the samples whose p-value is at most that of the observed one."""
    pvalues = [pvalue_of(np.array(arranged)) for arranged in sorted(set(itertools.permutations(classes)))]
    return np.mean(np.array(pvalues) <= pvalue_of(np.array(classes)) * 1.001)


def label_probabilities(labels, free, penalised):
    """Probabilities of a logistic regression on free columns, and on others with a ridge penalty of one."""
    Z = np.column_stack([free, penalised])

    def loss(coefficients):
        logits = Z @ coefficients
        return np.logaddexp(0.0, logits).sum() - labels @ logits + np.square(coefficients[free.shape[1] :]).sum() / 2

    logits = Z @ minimize(loss, np.zeros(Z.shape[1]), tol=1e-12).x
    return 1 / (1 + np.exp(-logits))


def independent_label_p_value(x, labels, p, Z):
    """Twice the probability of a score at least as far out on its side, over all label vectors; Z is projected out."""
    root = np.sqrt(p * (1 - p))[:, None]
    a = x - Z @ np.linalg.lstsq(Z * root, x * root[:, 0], rcond=None)[0]
    vectors = np.array(list(itertools.product([0, 1], repeat=len(x))))
    chances = np.where(vectors, p, 1 - p).prod(axis=1)
    scores, observed = (vectors - p) @ a, (labels - p) @ a
    tail = chances[np.sign(observed) * scores >= abs(observed) - 1e-9].sum()
    return min(2 * tail, 1.0)


def sign_p_value(terms):
    """Fraction of all sign changes whose sum is at least as large in absolute value."""
    sums = [np.dot(signs, terms) for signs in itertools.product([-1.0, 1.0], repeat=len(terms))]
    return np.mean(np.abs(sums) >= abs(terms.sum()) - 1e-9)


def cauchy_combination(p, shares):
    """Tail of the Cauchy distribution at the weighted mean of tan((½ - p) π), for p of at most 0.99."""
    statistic = sum(share * np.tan((0.5 - min(q, 0.99)) * np.pi) for share, q in zip(shares, p, strict=True))
    return 0.5 - np.arctan(statistic) / np.pi


# ---------------------------------------------------------------- survival


def martingale_residuals(time, event, weights=None, strata=None, risks=None):
    """Events less expected events, from the definition of the Nelson-Aalen (Breslow) estimate in every stratum."""
    m = len(time)
    w = np.ones(m) if weights is None else weights
    s = np.zeros(m) if strata is None else strata
    r = np.ones(m) if risks is None else risks
    residuals = np.zeros(m)
    for i in range(m):
        hazard = 0.0
        for j in range(m):
            if s[j] == s[i] and event[j] and time[j] <= time[i]:
                hazard += w[j] / sum(w[k] * r[k] for k in range(m) if s[k] == s[i] and time[k] >= time[j])
        residuals[i] = event[i] - r[i] * hazard
    return residuals


def cox_log_likelihood(beta, time, event, Z, weights=None, strata=None):
    """Breslow's log partial likelihood."""
    m = len(time)
    w = np.ones(m) if weights is None else weights
    s = np.zeros(m) if strata is None else strata
    total = 0.0
    for i in range(m):
        if event[i]:
            at_risk = sum(w[k] * np.exp(Z[k] @ beta) for k in range(m) if s[k] == s[i] and time[k] >= time[i])
            total += w[i] * (Z[i] @ beta - np.log(at_risk))
    return total


def concordance_index(time, event, risks):
    """Pairs in order among the comparable ones, counted one by one."""
    in_order = comparable = 0.0
    for i, j in itertools.permutations(range(len(time)), 2):
        if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
            comparable += 1.0
            in_order += 1.0 if risks[i] > risks[j] else 0.5 if risks[i] == risks[j] else 0.0
    return in_order / comparable


def survival_at(moment, time, event):
    """Kaplan-Meier estimate of the probability of surviving beyond a time."""
    survival = 1.0
    for t in np.unique(time[event]):
        if t <= moment:
            survival *= 1.0 - (event & (time == t)).sum() / (time >= t).sum()
    return survival


def residuals(rows, weights, strata, covariates):
    """Residuals of rows from weighted least squares on indicators of strata and on covariates."""
    m = rows.shape[1]
    weights = np.ones(m) if weights is None else weights
    indicators = np.ones((m, 1)) if strata is None else (strata[:, None] == np.unique(strata)).astype(float)
    Z, root = np.hstack([indicators, covariates]), np.sqrt(weights)
    fits = [Z @ np.linalg.lstsq(Z * root[:, None], row * root, rcond=None)[0] for row in rows]
    return rows - np.array(fits)


def corrected_standard_error(values, n_folds):
    """Return the standard error of a mean over repeated folds: variance times (1/cells + test/training samples)."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    test, training = 1 / n_folds, 1 - 1 / n_folds
    return sqrt((1 / len(values) + test / training) * variance)


def auc(x, y):
    """Fraction of pairs (one sample of each class) whose second class is higher; ties count one half."""
    pairs = [(a, b) for a in x[y == 0] for b in x[y == 1]]
    return sum((b > a) + 0.5 * (b == a) for a, b in pairs) / len(pairs)


def auc_score_test(area, theta, m, n):
    """Standard score of an observed area under the hypothesis theta, of two exponential distributions."""
    within = theta / (2 - theta), 2 * theta**2 / (1 + theta)
    size = (m + n) / 2
    variance = theta * (1 - theta) + (size - 1) * (within[0] - theta**2) + (size - 1) * (within[1] - theta**2)
    return (area - theta) / (variance / (m * n)) ** 0.5


def spearman(x, y):
    """Pearson's correlation of ranks, counted pair by pair."""
    ranks = [[sum((b < a) + 0.5 * (b == a) for b in values) for a in values] for values in (x, y)]
    return float(np.corrcoef(ranks)[0, 1])
