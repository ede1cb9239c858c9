"""A panel that several tests read."""

import pytest
from panel_tables import make_panel, make_table


@pytest.fixture(scope="package")
def panel():
    return make_panel(make_table())
