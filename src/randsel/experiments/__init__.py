"""Nested cross-validation, the paper's tables and its black-box pipeline."""
