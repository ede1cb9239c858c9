"""Fit Cox models of scikit-survival to training samples and print the risks of test samples, for outcomes_real.py.

build/outcomes/bin/python benchmarks/quality/outcomes_cox.py SPLIT.npz

SPLIT.npz has `X`, `event` and `time` of the training samples, `X_test`, and for each selection an array
`columns/NAME`. Prints a JSON object: name of the selection, or "Cox lasso" -> risks of the test samples.
"""

import json
import sys
import warnings

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler
from sksurv.linear_model import CoxnetSurvivalAnalysis, CoxPHSurvivalAnalysis
from sksurv.metrics import concordance_index_censored
from sksurv.util import Surv

#: Penalties of the ridge, in units of the mean variance of the rotated features times the number of samples.
RIDGES = np.logspace(-2, 1.5, 6)
FOLDS = KFold(5, shuffle=True, random_state=0)
#: Number of penalties of the lasso, and the smallest one as a fraction of the largest.
N_PENALTIES, SMALLEST = 30, 0.05


def ridge_risks(X, y, X_test):
    """Return the risks by a Cox model with a ridge penalty that is chosen by cross-validated concordance.

    Standardised features are rotated to their principal components, all of them: this leaves the model as it is, and
    it has no more coefficients than samples.
    """
    scaler = StandardScaler().fit(X)
    rotation = PCA().fit(scaler.transform(X))
    Z, Z_test = (rotation.transform(scaler.transform(values)) for values in (X, X_test))
    keep = rotation.explained_variance_ > 1e-10 * rotation.explained_variance_[0]
    penalties = RIDGES * len(X) * rotation.explained_variance_.sum() / keep.sum()
    search = GridSearchCV(CoxPHSurvivalAnalysis(), {"alpha": penalties}, cv=FOLDS, error_score=0.5)
    return search.fit(Z[:, keep], y).predict(Z_test[:, keep])


def lasso_risks(X, y, X_test):
    """Return the risks by a Cox lasso whose penalty is chosen by cross-validated concordance, and its size."""
    path = {"l1_ratio": 1.0, "n_alphas": N_PENALTIES, "alpha_min_ratio": SMALLEST}
    scaler = StandardScaler().fit(X)
    whole = CoxnetSurvivalAnalysis(**path).fit(scaler.transform(X), y)
    scores = np.zeros(len(whole.alphas_))
    for train, held_out in FOLDS.split(X):
        fold_scaler = StandardScaler().fit(X[train])
        # one path per fold: the penalties of a path are fitted together
        model = CoxnetSurvivalAnalysis(l1_ratio=1.0, alphas=whole.alphas_).fit(
            fold_scaler.transform(X[train]), y[train]
        )
        Z, event, time = fold_scaler.transform(X[held_out]), y[held_out]["event"], y[held_out]["time"]
        risks = (model.predict(Z, alpha=penalty) for penalty in whole.alphas_)
        scores += [concordance_index_censored(event, time, risk)[0] for risk in risks]
    best = int(np.argmax(scores))
    risks = whole.predict(scaler.transform(X_test), alpha=whole.alphas_[best])
    return risks, int(np.count_nonzero(whole.coef_[:, best]))


def main():
    """Print the risks of all models."""
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1], allow_pickle=False) as split:
        X, X_test = split["X"], split["X_test"]
        y = Surv.from_arrays(split["event"], split["time"])
        columns = {name.partition("/")[2]: split[name] for name in split.files if name.startswith("columns/")}
    risks = {name: ridge_risks(X[:, index], y, X_test[:, index]).tolist() for name, index in columns.items()}
    lasso, n_used = lasso_risks(X, y, X_test)
    print(json.dumps({"risks": {**risks, "Cox lasso": lasso.tolist()}, "n_lasso": n_used}))


if __name__ == "__main__":
    main()
