"""Comparisons of selectors by nested cross-validation, and the paper's tables and black-box pipeline.

`_specification` says what to compare, `_cells` evaluates one fold of one method, `_run` runs all cells with files, jobs
and time limits, `_summary` writes tables. Imports everything except the command line.
"""
