"""Choices that the command line offers. This module imports nothing slow, so help is printed at once."""

from typing import Any

#: Orientations of a table.
ORIENTATIONS = ("auto", "samples-in-rows", "features-in-rows")
#: What to do about missing values; the first is the default.
MISSING_RULES = ("neutral", "indicator", "median", "drop-columns", "error")
#: Formats of figures.
FIGURE_FORMATS = ("png", "svg", "pdf")
#: How to handle features with the same name; the first is the default.
DUPLICATE_RULES = ("error", "rename", "mean", "first")
#: How to handle values below the limit of detection.
DETECTION_RULES = ("half-minimum", "missing")
#: Methods of a comparison: name -> (name of the public class, parameters).
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "randSel": ("RandSel", {}),
    "randSel (total)": ("RandSel", {"criterion": "total"}),
    "randSel (bootstrap)": ("RandSel", {"estimator": "bootstrap"}),
    "BaHSIC": ("BaHSIC", {}),
    "FoHSIC": ("FoHSIC", {"n_features_to_select": 1.0}),
    "Corr. Coeff.": ("CorrelationFilter", {}),
    "Stab. Sel.": ("StabilitySelection", {}),
    "RFE": ("KernelRFE", {}),
    "SVM-RFE": ("KernelRFE", {"kernel": "linear", "drop": 0.25}),
    "F-test": ("FTest", {}),
    "Forest": ("ForestImportance", {}),
}
#: Methods to compare if none is named: not the bootstrap, which takes as long as the others together, and not the
#: F-test, which ranks like the correlation.
DEFAULT_METHODS = tuple(name for name in METHODS if name not in ("randSel (bootstrap)", "F-test"))
#: Transforms of new values in `randsel apply`; the reader takes log2.
TRANSFORMS = ("log2", "ln", "log10", "exp2", "exp", "exp10")
