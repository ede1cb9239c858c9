"""One reader per file format, listed in a registry; each returns a `Sheet`. Imports only `_utils`."""

from randsel.tables.formats._registry import FORMATS, GEO, TEXT
from randsel.tables.formats._text import (
    MISSING,
    ReadOptions,
    Sheet,
    check_distinct,
    open_records,
    parse_number,
    read_text,
)

__all__ = [
    "FORMATS",
    "GEO",
    "MISSING",
    "TEXT",
    "ReadOptions",
    "Sheet",
    "check_distinct",
    "open_records",
    "parse_number",
    "read_text",
]
