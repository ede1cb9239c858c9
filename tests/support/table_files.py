"""Small tables and how to write them, for the tests of tables."""


def package_not_installed(module, *, extra, purpose):
    """Stand in for `optional` where a package is not installed."""
    msg = f"{purpose} needs {module}, which is not installed: pip install {module} (part of the extra '{extra}')."
    raise ImportError(msg)


#: A table with ids, target and groups.
PLAIN = ",a,b,status,donor\nr1,1,2.5,sick,d1\nr2,3,-4e2,well,d2\nr3,5,6,well,d1\nr4,7,0,sick,d2\n"


def has_note(table, words):
    """Return whether a note of a table contains these words."""
    return any(words in note for note in table.notes)
