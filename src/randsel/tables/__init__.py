"""Files to a `Table`: numbers, target, names and notes on what was found."""

from randsel.tables._read import Table, imputer, read

__all__ = ["Table", "imputer", "read"]
