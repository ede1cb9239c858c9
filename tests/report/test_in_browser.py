"""Reports in a headless Chromium: wide, on a phone, in dark mode and in print."""

import json
from dataclasses import replace

import numpy as np
import pytest
from fitted import HOSTILE, hostile_table

from randsel import InteractionScan, plots
from randsel._utils.text import make_visible
from randsel.analysis import Settings, analyse
from randsel.panels import Panel, apply_panel, fit_panel, write_application
from randsel.panels._results import list_predictions
from randsel.report import _html as report
from randsel.report import (
    interaction_contents,
    render_interactions,
    significant_pairs,
    verdict,
)
from randsel.tables._read import Table

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(open_page, plain_html):
    return open_page(plain_html)


def names_shown(page):
    rows = "[...document.querySelectorAll('#features-table tbody tr')].filter((row) => !row.hidden)"
    return page.js(f"{rows}.map((row) => row.dataset.name)")


def test_hostile_names_do_nothing_in_a_browser(open_page, hostile, hostile_contents):
    browser = open_page(report.render(hostile_contents))
    assert browser.problems == []
    assert browser.js("document.images.length") == 0
    assert browser.js("document.scripts.length") == 2
    shown = browser.js("[...document.querySelectorAll('tbody th bdi')].map((cell) => cell.textContent)")
    assert HOSTILE[0] in shown
    assert names_shown(browser) == [make_visible(feature.name) for feature in hostile.features]


def test_an_injected_script_does_not_run(open_page, plain_html):
    browser = open_page(plain_html.replace("<main>", "<main><img src=x onerror=\"document.title = 'run'\">"))
    assert browser.problems
    assert browser.js("document.title") != "run"


def test_the_table_sorts_by_mouse_and_by_keyboard(opened, plain):
    names = {feature.name: feature for feature in plain.features}
    header = "#features-table th:nth-child({}) button"
    state = "[...document.querySelectorAll('#features-table thead th')].map((cell) => cell.getAttribute('aria-sort'))"
    fields_shown = ["rank", "name", *(column.field for column in plain.columns if column.in_table)]
    place = fields_shown.index("interaction")
    assert opened.js(state) == ["ascending", *[None] * (len(fields_shown) - 1)]
    opened.click("#more")
    opened.click(header.format(place + 1))
    values = [names[name].interaction for name in names_shown(opened)]
    assert values == sorted(values, reverse=True)
    assert opened.js(state)[place] == "descending"
    opened.js(f"document.querySelector({json.dumps(header.format(place + 1))}).focus()")
    opened.press("Enter", 13)
    values = [names[name].interaction for name in names_shown(opened)]
    assert values == sorted(values)
    assert opened.js(state) == ["ascending" if k == place else None for k in range(len(fields_shown))]
    opened.click(header.format(2))
    assert names_shown(opened)[:4] == ["gene 0", "gene 1", "gene 2", "gene 3"]  # and not gene 10
    opened.press("Tab", 9)
    assert opened.js("document.activeElement.textContent").startswith("direction")
    assert opened.problems == []


def test_missing_values_sort_last_in_both_directions(open_page, plain, quick):
    features = tuple(replace(f, stability=np.nan) if f.rank == 1 else f for f in plain.features[:5])
    browser = open_page(report.render(report.contents(replace(plain, features=features))))
    place = ["rank", "name", *(column.field for column in plain.columns if column.in_table)].index("stability")
    for _ in range(2):
        browser.click(f"#features-table th:nth-child({place + 1}) button")
        assert names_shown(browser)[-1] == features[0].name


def test_the_table_is_searched_and_expanded(opened, plain):
    assert len(names_shown(opened)) == 20
    assert opened.js("document.getElementById('said').textContent") == "20 of 40 shown"
    opened.click("#search")
    opened.type("GENE 1")
    expected = {f.name for f in plain.features if "gene 1" in f.name or "gene 1" in (f.partner or "")}
    opened.js("document.getElementById('more').click()")
    assert set(names_shown(opened)) == expected
    assert len(expected) < 40
    opened.js("document.getElementById('search').select()")
    opened.type("no such name")
    assert names_shown(opened) == []
    assert opened.js("document.getElementById('said').textContent") == "no feature matches"
    opened.js("document.getElementById('search').select()")
    opened.press("Delete", 46)
    opened.click("#chosen")
    assert set(names_shown(opened)) == {"gene 0", "gene 1"}
    opened.click("#chosen")
    opened.click("#more")
    assert len(names_shown(opened)) == 40
    assert opened.problems == []


def test_layout_on_a_phone_in_dark_mode_and_in_print(open_page, hostile_contents, tmp_path):
    html = report.render(hostile_contents)
    ground = "getComputedStyle(document.body).backgroundColor"
    browser = open_page(html, width=360, height=740)
    assert browser.js("document.documentElement.scrollWidth") == 360
    assert browser.js("getComputedStyle(document.querySelector('.wide')).display") == "none"
    assert browser.js(ground) == "rgb(255, 255, 255)"
    browser = open_page(html, dark=True)
    assert browser.js("document.documentElement.scrollWidth") == 1200
    assert browser.js(ground) == "rgb(21, 23, 26)"
    light = "getComputedStyle(document.querySelector('svg text')).fill"
    assert browser.js(light) == "rgb(230, 232, 234)"
    browser.media(dark=True, kind="print")
    assert browser.js(ground) == "rgb(255, 255, 255)"
    assert browser.js(light) == "rgb(0, 0, 0)"
    assert browser.js("getComputedStyle(document.querySelector('.tools')).display") == "none"
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    browser.media()


def test_the_table_of_features_fits_and_labels_of_settings_stay_whole(open_page, plain, plain_html):
    page = open_page(plain_html)
    assert (
        page.js("(() => { const s = document.querySelector('.roomy'); return s.scrollWidth - s.clientWidth; })()") == 0
    )
    settings = {"version": "0.2", "data_hash": "0123456789abcdef" * 4, "parameters": {"orientation": "auto"}}
    page = open_page(report.render(report.contents(replace(plain, settings=settings))), width=390)
    lines = page.js(
        "[...document.querySelectorAll('.settings th')].map((cell) => { const range = document.createRange();"
        " range.selectNodeContents(cell); return [cell.textContent, range.getClientRects().length]; })"
    )
    assert ["orientation", 1] in lines
    assert ["version", 1] in lines
    assert page.js("document.documentElement.scrollWidth") == 390


def test_numbers_on_a_pale_ground_are_dark_without_a_rim_in_dark_mode(open_page, plain_html):
    browser = open_page(plain_html, dark=True)
    texts = "[...document.querySelectorAll('svg text')].map((text) => getComputedStyle(text))"
    styles = browser.js(f"{texts}.filter((style) => style.fill === 'rgb(17, 17, 17)').map((style) => style.stroke)")
    assert len(styles) >= 4  # of the confusion matrix
    assert set(styles) == {"none"}


def test_titles_of_features_in_a_row_are_at_the_same_height(open_page, plain, quick):
    content = report.contents(plain)
    for panel, direction in zip(content["features"]["drawn"], ("higher in case", "", ""), strict=False):
        panel["direction"] = direction
    browser = open_page(report.render(content))
    tops = browser.js("[...document.querySelectorAll('.grid h3')].slice(0, 2).map((h) => h.getBoundingClientRect().y)")
    assert len(tops) == 2
    assert tops[0] == tops[1]


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_lines_have_contrast(opened, dark):
    opened.media(dark=dark)

    def luminance(name):
        find = f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
        value = opened.js(find) if name.startswith("--") else name
        parts = [int(value[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    def contrast(name):
        low, high = sorted((luminance(name), luminance("--paper")))
        return (high + 0.05) / (low + 0.05)

    # WCAG 2: text 4.5, graphics 3
    assert all(contrast(name) >= 4.5 for name in ("--ink", "--quiet", "--accent", "--link"))
    assert all(contrast(colour) >= 3.0 for colour in (*plots.CLASS_COLOURS, plots.LOW_TO_HIGH[0], plots.LOW_TO_HIGH[2]))
    opened.media()


def test_whole_names_can_be_seen(open_page, hostile_contents):
    browser = open_page(report.render(hostile_contents))
    selector = "#features-table .feature .clamp[tabindex]"  # very long names
    height = f"document.querySelector('{selector}').getBoundingClientRect().height"
    cut = browser.js(height)
    browser.click(selector)
    assert browser.js(height) > cut
    assert browser.js(f"document.activeElement === document.querySelector('{selector}')")


def test_the_first_columns_leave_no_space_unused(opened):
    box = "document.querySelector('#features-table tbody .feature').getBoundingClientRect()"
    line = opened.js("parseFloat(getComputedStyle(document.querySelector('#features-table')).lineHeight)")
    assert opened.js(f"{box}.height") < 2 * line + 8  # short names are on one line


def test_the_verdict_comes_first_with_a_mark_and_words(opened, plain):
    first = opened.js("document.querySelector('header').children[1].id")
    lines = opened.js("[...document.querySelectorAll('#verdict div')].map((line) => [line.className, line.innerText])")
    assert first == "verdict"
    assert [line[0] for line in lines] == [line.level for line in verdict(plain)]
    assert lines[0][1].startswith("Is there a signal?")
    marks = opened.js(
        "[...document.querySelectorAll('#verdict div')].map((line) => getComputedStyle(line, '::before').content)"
    )
    assert set(marks) <= {'"✓"', '"!"', '"✕"', '"?"'}


def test_headings_stay_with_their_figures_in_print(opened):
    opened.media(kind="print")
    inside = "getComputedStyle(document.querySelector('{}').closest('section')).breakInside"
    for heading in ("#heatmap", "#volcano", "#accuracy", "#path"):
        assert opened.js(inside.format(heading)) == "avoid"
    for selector in ("h2", "h3", ".legend"):
        assert opened.js(f"getComputedStyle(document.querySelector('main {selector}')).breakAfter") == "avoid"
    # a button is not painted where the header of the table is repeated on the next page
    assert opened.js("getComputedStyle(document.querySelector('#features-table th button')).display") == "contents"
    opened.media()


def test_a_legend_is_not_parted_in_print(opened):
    opened.media(kind="print")
    assert opened.js("getComputedStyle(document.querySelector('.legend')).breakInside") == "avoid"
    opened.media()


def test_names_and_commands_are_whole_on_a_phone(open_page, plain):
    names = ("1-oleoylglycerophosphate", "ADpSGEGDFXAEGGGVR*", "higher in CD4+/CD25 T Reg")
    table = replace(plain.table, names=names + plain.table.names[3:])
    features = tuple(replace(f, name=table.names[f.column], direction=names[2]) for f in plain.features)
    command = "randsel select a.csv --target-file samples.csv --target status --covariates age --out results"
    analysis = replace(plain, table=table, features=features, settings={"command": command})
    page = open_page(report.render(report.contents(analysis)), width=390)
    clipped = "[...document.querySelectorAll('.clamp')].filter((name) => name.scrollWidth > name.clientWidth)"
    assert page.js(f"{clipped}.map((name) => name.textContent)") == []
    assert page.js("document.querySelector('pre').innerText.trim()") == command
    words = "[...document.querySelectorAll('pre .word')]"
    assert page.js(f"{words}.map((word) => word.textContent)") == command.split()
    assert page.js(f"new Set({words}.map((word) => word.getBoundingClientRect().height)).size") == 1  # on one line
    assert page.js(f"new Set({words}.map((word) => word.getBoundingClientRect().y)).size") > 1


def test_captions_stay_with_grids_of_panels_in_print(open_page, plain_html, scanned):
    for html in (plain_html, render_interactions(scanned[2])):
        page = open_page(html)
        page.media(kind="print")
        figures = "[...document.querySelectorAll('.grid')].map((grid) => grid.closest('figure'))"
        assert page.js(f"{figures}.length") >= 1
        assert page.js(f"{figures}.every((figure) => getComputedStyle(figure).breakInside === 'avoid')")
        assert page.js(f"{figures}.every((figure) => figure.querySelector('figcaption') !== null)")
        captions = "[...document.querySelectorAll('figcaption, .caption')]"
        assert page.js(f"{captions}.every((caption) => getComputedStyle(caption).breakBefore === 'avoid')")
        page.media()


@pytest.fixture(scope="module")
def scanned():
    table = hostile_table("classification")
    scan = InteractionScan().fit(table.X, table.y)
    about = {"kind": "classification", "data": "<b>table</b>.csv", "notes": ("<i>note</i>",), "warnings": ("<u>",)}
    return scan, table, interaction_contents(scan, table, **about)


def test_the_report_of_interactions_shows_pairs_that_hold(open_page, scanned):
    scan, table, content = scanned
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    n_drawn = len(content["pairs"]["drawn"])
    assert n_drawn == len(significant_pairs(scan)) >= 1
    for width, dark in ((1200, False), (390, True)):
        browser = open_page(render_interactions(content), width=width, dark=dark)
        assert browser.problems == []
        assert browser.js("document.documentElement.scrollWidth") == width
        assert browser.js("document.images.length") == 0
        assert browser.js("document.querySelectorAll('i, u, main b').length") == 0
        assert browser.js("document.querySelectorAll('svg').length") == n_drawn + 2  # and the heat map, wide and narrow
    assert names_shown(browser) == [make_visible(table.names[j]) for j in scan.order_]


def test_the_report_of_interactions_draws_no_pair_of_noise(open_page):
    rng = np.random.default_rng(1)
    table = Table(rng.standard_normal((60, 6)), np.arange(60) % 2, tuple("abcdef"), covariates={"age": rng.random(60)})
    scan = InteractionScan(order=3, with_covariates=True).fit(table.X, table.y, covariates=table.covariates)
    content = interaction_contents(scan, table, kind="classification")
    assert content["verdict"][0]["level"] == "poor"
    browser = open_page(render_interactions(content))
    assert browser.problems == []
    assert browser.js("document.querySelectorAll('svg').length") == 0
    assert browser.js("document.getElementById('triples') !== null && document.getElementById('covariates') !== null")


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_the_report_of_new_samples(open_page, hostile, tmp_path, width, dark):
    panel = Panel(**vars(fit_panel(hostile)))
    ids = np.array([f"<img src=x onerror=alert({i})>" for i in range(len(hostile.table.y))])
    application = apply_panel(panel, replace(hostile.table, ids=ids), about={"data": "<script>alert(1)</script>.csv"})
    assert write_application(application, tmp_path) == []
    browser = open_page((tmp_path / "report.html").read_text(encoding="utf-8"), width=width, dark=dark)
    assert browser.problems == []
    assert browser.js("document.documentElement.scrollWidth") == width
    assert browser.js("document.images.length + document.scripts.length") == 0
    assert browser.js("document.title") == "Panel applied to <script>alert(1)</script>.csv"
    assert browser.js("document.body.innerText").count("onerror=alert(0)") >= 1
    browser.media(kind="print")
    rows = "[...document.querySelectorAll('#predictions tbody tr')]"
    assert browser.js(f"{rows}.length") > 40
    assert browser.js(f"{rows}.every((row) => getComputedStyle(row).display !== 'none')")


def test_tables_of_ten_long_class_names_fit_a_page_and_a_phone(open_page, tmp_path):
    rng = np.random.default_rng(0)
    classes = np.array([f"CD4+/CD45RA+/CD25- naive T cells, population {k}" for k in range(10)])
    codes = np.arange(200) % 10
    names = ("a", "b" * 40, "3-carboxy-4-methyl-5-propyl-2-furanpropanoate (CMPF)")
    table = Table(rng.standard_normal((200, 3)) + codes[:, None], classes[codes], names)
    panel = Panel(**vars(fit_panel(analyse(table, Settings(halves=0, folds=0, pairs="none", top=3)))))
    application = apply_panel(panel, table, about={"data": "new.csv"})
    write_application(application, tmp_path)
    page = open_page((tmp_path / "report.html").read_text(encoding="utf-8"))
    hidden = "[...document.querySelectorAll('.scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    assert page.js(hidden) == [0] * 5
    titles = page.js("[...document.querySelectorAll('thead .class')].map((cell) => cell.title)")
    assert page.js("[...document.querySelectorAll('tbody th.class')].map((cell) => cell.title)") == [*classes]
    assert titles == [*classes, *classes]
    shown = page.js("[...document.querySelectorAll('thead .class')].map((cell) => cell.textContent)")
    assert len(set(shown)) == 10
    assert max(map(len, shown)) <= 32
    page.media(kind="print")
    assert page.js("document.documentElement.scrollWidth") == 1200
    page.media()
    page = open_page((tmp_path / "report.html").read_text(encoding="utf-8"), width=390)
    assert page.js(hidden) == [0] * 5
    cells = "[...document.querySelectorAll('#predictions tr:last-child td')].filter((cell) => cell.offsetWidth > 0)"
    shown = page.js(f"{cells}.map((cell) => cell.textContent)")
    row = list_predictions(application)[len(codes) - 1]
    assert len(shown) == 5  # sample, class, the probability of that class, observed class, missing features
    assert float(shown[2]) == pytest.approx(float(row[f"probability of {row['predicted']}"]), rel=0.01)
