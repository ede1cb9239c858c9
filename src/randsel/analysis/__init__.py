"""From a table to an `Analysis`: culling, tests, half-samples, nested cross-validation, and reasons for caution.

Imports from all folders of the method and from `tables`; nothing in it writes for people.
"""

from randsel.analysis._cautions import cautions
from randsel.analysis._model import Accuracy, Analysis, Feature, Pair, Settings, Stability

__all__ = ["Accuracy", "Analysis", "Feature", "Pair", "Settings", "Stability", "cautions"]
