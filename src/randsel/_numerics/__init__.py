"""Arrays, columns, kernels and null distributions: numerical parts that know no estimator."""
