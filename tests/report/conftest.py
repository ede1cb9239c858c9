"""Analyses, reports and a browser that the tests of reports share."""

import numpy as np
import pytest
from browser import Browser, chromium
from fitted import analysis_of, hostile_table

from randsel import datasets
from randsel.report import _html as report
from randsel.tables._read import Table


@pytest.fixture(scope="module", params=["classification", "regression"])
def hostile(request):
    return analysis_of(hostile_table(request.param), request.param, data="<i>table</i>.csv", halves=4)


@pytest.fixture(scope="module")
def plain():
    X, y, _ = datasets.make_xor(150, 40, random_state=0)
    names = tuple(f"gene {j}" for j in range(40))
    return analysis_of(Table(X, np.where(y > 0, "case", "control"), names), "classification", halves=4)


@pytest.fixture(scope="module")
def hostile_contents(hostile):
    return report.contents(hostile)


@pytest.fixture(scope="module")
def plain_html(plain):
    return report.render(report.contents(plain))


@pytest.fixture
def quick(monkeypatch):
    """Replace drawing, which takes seconds, for tests of the text."""
    for name in ("draw_panel", "draw_figure"):
        monkeypatch.setattr(report, name, lambda *_, **__: "<svg></svg>")


@pytest.fixture
def open_page(browser, tmp_path):
    def load(html, **options):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        browser.load(path, **options)
        return browser

    return load


@pytest.fixture(scope="module")
def browser():
    if chromium() is None:
        pytest.skip("no chromium on this machine (Debian package chromium)")
    with Browser() as page:
        yield page
