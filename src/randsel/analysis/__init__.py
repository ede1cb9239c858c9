"""A table to an `Analysis`: culling, tests, half-samples and nested cross-validation."""
