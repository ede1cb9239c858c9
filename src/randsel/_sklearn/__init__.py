"""The contract with scikit-learn: validation, progress callbacks, the base class of selectors."""
