"""Choices that the command line offers. This module imports nothing slow, so help is printed at once."""

from typing import Any

#: Orientations of a table.
ORIENTATIONS = ("auto", "samples-in-rows", "features-in-rows")
#: What to do about missing values. The command line does not offer "keep", which leaves them to the caller.
MISSING_RULES = ("error", "median", "drop-columns", "keep")
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
}
