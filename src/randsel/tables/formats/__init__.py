"""One reader per file format; each returns a `Sheet`."""
