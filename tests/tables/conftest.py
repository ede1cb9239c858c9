"""Fixtures of the tests of tables."""

import pytest
from table_files import package_not_installed

from randsel.tables.formats import _cells


@pytest.fixture(params=["polars", "python"])
def engine(request, monkeypatch):
    """Convert text to numbers with polars, and without it."""
    if request.param == "python":
        monkeypatch.setattr(_cells, "optional", package_not_installed)
    return request.param


@pytest.fixture
def file(tmp_path):
    """Function that writes a file and returns its path."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
