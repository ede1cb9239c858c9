"""One reader per file format, listed in a registry; each returns a `Sheet`. Imports only `_utils`."""
