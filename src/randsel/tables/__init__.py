"""Reads files into a `Table`: features, target, names, and notes about the file.

`read` calls the reader of the format (`formats/`, some readers in a sandbox), puts samples in rows, and gives each
column its role: ids, target (or event and time), groups, batch, covariate or feature. Imports only `_numerics` and
`_utils`.
"""

from randsel.tables._features import half_minimum
from randsel.tables._identifiers import find_clinical
from randsel.tables._missing import imputer
from randsel.tables._read import LOWEST, MAX_NEGATIVE, Table, read
from randsel.tables._remarks import CODES_FOR_MISSING
from randsel.tables._survival_columns import is_missing_survival, read_survival_columns
from randsel.tables.formats import has_cells, parse_number

__all__ = [
    "CODES_FOR_MISSING",
    "LOWEST",
    "MAX_NEGATIVE",
    "Table",
    "find_clinical",
    "half_minimum",
    "has_cells",
    "imputer",
    "is_missing_survival",
    "parse_number",
    "read",
    "read_survival_columns",
]
