import base64
import hashlib
import io
import json
import re
import sys
from collections import Counter
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from fitted import HOSTILE, analysis_of
from PIL import Image

from randsel import InteractionScan, RandSel, datasets
from randsel._utils.text import make_visible
from randsel.analysis import Settings, analyse
from randsel.analysis._model import Accuracy, Rule, Stability
from randsel.analysis._ranking import MISSING, NAME, RANK, SELECTED, VALUE_COLUMNS, Feature
from randsel.culling import StandIn
from randsel.report import _figures as figures
from randsel.report import _html as report
from randsel.report import interaction_contents, render_interactions, say_whether_pairs_hold
from randsel.report._sentences import summarise
from randsel.tables._read import Table

ROOT = Path(__file__).parents[2]


def sentences(content):
    """Return the verdict and the details of a report."""
    return [line["text"] for line in content["verdict"]] + content["details"]


def noise():
    rng = np.random.default_rng(0)
    table = Table(rng.standard_normal((80, 20)), rng.permutation(80) % 2, tuple(f"g{j}" for j in range(20)))
    return analysis_of(table, "classification", halves=2)


class Page(HTMLParser):
    """A parsed page: tags, attributes, and text by the innermost tag."""

    VOID = ("meta", "link", "input", "br", "img")

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = Counter(), [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))


# ---------------------------------------------------------------- columns of the ranking


def test_every_field_of_a_feature_is_a_column():
    columns = [column.field for column in (NAME, RANK, SELECTED, *VALUE_COLUMNS, MISSING)]
    assert sorted([*columns, "column"]) == sorted(field.name for field in fields(Feature))


# ---------------------------------------------------------------- contents


def test_contents_are_complete_and_valid_json(hostile, hostile_contents):
    content = hostile_contents
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert [row["rank"] for row in content["features"]["rows"]] == list(range(1, len(HOSTILE) + 1))
    assert {row["name"] for row in content["features"]["rows"]} == {make_visible(name) for name in HOSTILE}
    first = hostile.features[0]
    row = content["features"]["rows"][0]
    assert (row["contribution"], row["main"], row["q"]) == (first.contribution, first.main, first.q)
    selected = [make_visible(feature.name) for feature in hostile.features if feature.selected]
    assert [panel["name"] for panel in content["features"]["drawn"]] == selected[: figures.DRAWN]
    assert 1 <= len(content["pairs"]["drawn"]) <= figures.DRAWN_PAIRS
    assert all(row["corrected_p"] <= 0.05 for row in content["pairs"]["rows"])
    assert content["target"]["name"] == "target"
    assert content["accuracy"]["selected"] == hostile.accuracy.selected.tolist()
    assert content["repeat"]["command"].startswith("randsel select")
    assert content["repeat"]["data_hash"] == hostile.settings["data_hash"]
    assert {"name": "halves", "value": "4"} in content["settings"]
    assert content["notes"] == list(hostile.notes)


def test_summary_of_a_selection(plain, quick):
    plain = replace(plain, warnings=("The batch is confounded with the target.",))
    signal, stability, prediction, beware, rule, samples, *others = sentences(report.contents(plain))
    assert signal.startswith("Yes, in combination. ")
    assert signal.endswith("Of 40 features, 2 were selected: gene 1 and gene 0.")
    assert rule == report.contents(plain)["rule"]
    assert "selected is the smallest set whose error for left-out samples is within one standard error of the" in rule
    counts = Counter(plain.table.y.tolist())
    assert f"{counts['case']} case" in samples
    assert f"{counts['control']} control" in samples
    text = " ".join(others)
    assert "2 of the 2 selected have a significant interaction with another feature (corrected p at most 0.05)." in text
    assert "strongest pair is gene 0 with gene 1 (corrected p" in text
    steps = "In forward steps, 2 features are significant given those of earlier steps: gene 1 and gene 0 (family-wise"
    assert steps in text
    assert "random halves of the samples" in stability
    assert "chance 0.50, all features" in prediction
    assert beware.startswith("1 warning: The batch is confounded with the target. ")
    assert not re.search(r"\de[+-]\d", " ".join(sentences(report.contents(plain))))


def test_long_names_are_cut_in_sentences_only(plain, quick):
    name = "x" * 300
    long = tuple(replace(f, name=name) if f.rank == 1 else f for f in plain.features)
    content = report.contents(replace(plain, features=long))
    assert name[:49] + "… and gene" in sentences(content)[0]
    assert content["features"]["rows"][0]["name"] == name
    long = tuple(replace(f, name=name) if f.selected else f for f in plain.features)
    assert sentences(report.contents(replace(plain, features=long)))[0].endswith("x…")


def test_every_setting_is_listed_once(plain, quick):
    settings = plain.settings | {"parameters": {"seed": 0, "task": "classification"}}
    names = [row["name"] for row in report.contents(replace(plain, settings=settings))["settings"]]
    assert names.count("seed") == 1
    assert "task" in names


def test_effects_of_the_volcano_do_not_depend_on_units(plain):
    table, effects = plain.table, plain.effects
    assert not effects.log2
    values, label = figures.signed_effects(plain)
    assert label == "AUC − 0.5; positive if higher in control"
    above = table.X[table.y == "control"][:, None] > table.X[table.y == "case"]
    np.testing.assert_allclose(values, above.mean(axis=(0, 1)) - 0.5, atol=1e-12)
    values, label = figures.signed_effects(replace(plain, effects=replace(effects, log2="given")))
    assert label == "log2 fold change: control less case"
    assert np.array_equal(values, effects.difference)


def test_the_line_of_the_volcano_separates_features_by_their_q_values(plain):
    limit = figures._limit_of_q(plain)
    assert limit is not None
    assert all((feature.p <= limit) == (feature.q <= 0.05) for feature in plain.features)
    assert figures._limit_of_q(replace(plain, features=tuple(replace(f, q=1.0) for f in plain.features))) is None


@pytest.mark.slow
def test_accuracy_and_stability_in_words(plain, quick):
    accuracy = Accuracy("balanced accuracy", np.array([0.8, 0.9]), np.array([0.7, 0.7]), 0.5, np.array([3, 12]))
    stability = Stability(100, 0.6, 0.25, np.r_[np.ones(3), np.zeros(37)])
    content = report.contents(replace(plain, accuracy=accuracy, stability=stability))
    text = " ".join(sentences(content))
    assert "better than all features together: balanced accuracy 0.85\u00a0±\u00a00.07 on samples" in text
    assert "(2 folds); chance 0.50, all features 0.70\u00a0±\u00a00.00." in text
    assert (
        "3 features were selected in at least 60\u202f% of 100 random halves of the samples, by the same rule" in text
    )
    bound = "; the expected number of features among them that are unrelated to the target is at most 0.25, if all"
    assert bound in text
    assert content["accuracy"]["words"]["sizes"] == "3 to 12"
    guess = replace(accuracy, selected=np.array([0.4, 0.62]))
    assert "No better than chance, within the spread" in " ".join(
        sentences(report.contents(replace(plain, accuracy=guess)))
    )


def test_summary_of_noise_starts_with_nothing_stands_out(quick):
    analysis = noise()
    assert analysis.nothing_stands_out
    content = report.contents(analysis)
    assert sentences(content)[0].startswith("No. Nothing stands out")
    assert "No pair of features stands out" in " ".join(sentences(content))
    # what is not selected, and pairs that do not hold, are not drawn
    assert content["features"]["drawn"] == content["pairs"]["drawn"] == content["pairs"]["rows"] == []
    assert content["overview"]["heatmap"] is None
    page = report.render(content)
    assert "Nothing stands out" in page
    ids = {value for _, name, value in Page(page).attributes if name == "id"}
    assert not {"heatmap", "distributions", "pairs"} & ids


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule("path"), ["smallest set whose error for left-out samples is within one standard error"]),
        (Rule("tests", fdr=0.05), ["q-value of at most 0.05", "as a whole do not stand out"]),
        (Rule("top", top=2), ["the first 2 features of the ranking", "whether or not they stand out"]),
        (Rule("fdr", fdr=0.1), ["the features with a q-value of at most 0.1 (--fdr)"]),
        (Rule("fdr", top=3, fdr=0.1), ["at most 3, with a q-value of at most 0.1 (--fdr)"]),
        (Rule("nothing"), ["Nothing is selected"]),
    ],
)
def test_one_sentence_says_which_features_are_selected(plain, quick, rule, words):
    none = rule.name == "nothing"
    features = tuple(replace(f, selected=f.selected and not none, q=0.9 if none else f.q) for f in plain.features)
    content = report.contents(replace(plain, rule=rule, features=features, nothing_stands_out=none))
    assert all(word in content["rule"] for word in words)
    assert sentences(content)[4] == content["rule"]
    assert content["rule"] in report.render(content)
    tile = {fact["name"]: fact["value"] for fact in content["facts"]}["selected"]
    assert tile == ("0" if none else "2")
    assert sentences(content)[0].startswith("No. Nothing stands out" if none else "Yes, in combination")


@pytest.mark.parametrize(
    ("pvalue", "stands_out", "words"),
    [
        (
            0.01,
            True,
            "Yes. The features as a whole are related to the target (p = 0.010, the smallest that",
        ),
        (0.02, True, "related to the target (p = 0.020, from 99 shuffles of the target)."),
        (0.5, True, "one by one they do not stand out (p = 0.50, from 99 shuffles of the target)."),
        (0.5, False, "The features as a whole do not stand out from chance (p = 0.50, from 99 shuffles of the target)"),
    ],
)
def test_the_first_sentence_says_whether_the_features_as_a_whole_stand_out(plain, pvalue, stands_out, words):
    path = replace(plain.path, noise_pvalue=pvalue)
    assert words in summarise(replace(plain, path=path, nothing_stands_out=not stands_out))[0]


def test_forward_steps_are_named_in_their_order_and_only_if_there_are_any(plain):
    features = tuple(replace(f, step=20 - f.rank if f.rank <= 12 else 0) for f in plain.features)
    names = [f.name for f in features[:12]][::-1]
    (sentence,) = (s for s in summarise(replace(plain, features=features)) if s.startswith("In forward steps"))
    assert f"12 features are significant given those of earlier steps: {', '.join(names[:10])} and 2 more (" in sentence
    none = tuple(replace(f, step=0) for f in features)
    assert not any("forward steps" in s for s in summarise(replace(plain, features=none)))


def test_stand_ins_are_listed_for_the_selected_features(plain, quick):
    assert "stand-ins" not in {
        v for _, name, v in Page(report.render(report.contents(plain))).attributes if name == "id"
    }
    first, second = (feature.column for feature in plain.features[:2])
    swaps = {first: [StandIn(7, -0.913, 0.0123), StandIn(8, 0.75, -0.002)], second: [StandIn(9, 0.8, np.nan)]}
    content = report.contents(replace(plain, stand_ins=swaps))
    assert [row["stand_in"] for row in content["stand_ins"]["rows"]] == ["gene 7", "gene 8", "gene 9"]
    assert content["stand_ins"]["rows"][2]["loss"] is None
    texts = [text for _, text in Page(report.render(content)).texts]
    assert {"−0.91", "0.012", "0.75", "−0.002"} <= set(texts)
    assert "2 of the selected features have stand-ins." in " ".join(" ".join(texts).split())


def test_the_caption_of_the_path_says_what_its_error_is_for(plain, quick):
    page = " ".join(report.render(report.contents(plain)).split())
    assert "It chooses a number of features" in page
    assert "It is not an estimate of accuracy" in page
    assert "but this run used another rule" not in page
    other = report.render(report.contents(replace(plain, rule=Rule("top", top=2))))
    assert "but this run used another rule" in " ".join(other.split())


def test_what_top_selects_from_noise_is_no_finding(quick):
    analysis = noise()
    features = tuple(replace(feature, selected=feature.rank <= 5) for feature in analysis.features)
    first, *others = sentences(report.contents(replace(analysis, rule=Rule("top", top=5), features=features)))
    assert first.startswith("No. Nothing stands out")
    assert "The selected features (5 of 20) were requested, and are not a finding." in first
    assert any("the first 5 features of the ranking" in sentence for sentence in others)


def test_results_that_were_not_computed_are_left_out(plain, quick):
    bare = replace(plain, pairs=(), accuracy=None, stability=None, warnings=(), notes=(), settings={})
    content = report.contents(bare)
    assert content["accuracy"] is None
    page = Page(report.render(content))
    ids = {value for _, name, value in page.attributes if name == "id"}
    assert {"features", "path", "repeat", "cite"} <= ids
    assert not {"pairs", "accuracy", "warnings"} & ids
    links = {value[1:] for tag, name, value in page.attributes if tag == "a" and name == "href"}
    assert links <= ids


def test_scores_of_the_bootstrap_may_be_missing(plain, quick):
    nothing = tuple(replace(f, main=np.nan, interaction=np.nan, partner=None, stability=np.nan) for f in plain.features)
    content = report.contents(replace(plain, features=nothing))
    assert content["features"]["rows"][0]["main"] is None
    json.dumps(content, allow_nan=False)
    assert not re.search(r"\bnan\b", report.render(content), re.IGNORECASE)


def test_a_long_table_is_cut_with_a_note(plain, quick):
    many = tuple(replace(plain.features[0], rank=rank) for rank in range(1, 20_001))
    content = report.contents(replace(plain, features=many))
    assert len(content["features"]["rows"]) == report.TABLE
    html = report.render(content)
    assert "All 20\u202f000 features" in html
    assert "ranking.csv" in html


@pytest.mark.slow
def test_the_file_stays_small_with_many_samples_and_features(plain):
    X, y, _ = datasets.make_xor(3000, 700, random_state=0)
    path = RandSel(2).fit(X[:60], y[:60]).path_
    table = Table(X, y, tuple(f"g{j}" for j in range(700)))
    accuracy = replace(plain.accuracy, held_out=None)  # predictions of other samples
    content = report.contents(replace(plain, table=table, path=path, accuracy=accuracy))
    html = report.render(content)
    # what is drawn as pixels has the colours of the legend
    pixels = re.search(r"data:image/png;base64,([^\"]*)", content["features"]["drawn"][0]["figure"]).group(1)
    drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(pixels))).convert("RGBA")).reshape(-1, 4)
    first = next(colour[:3] for colour in drawn if colour[3] > 150)
    assert "#" + "".join(f"{part:02x}" for part in first) in {c["colour"] for c in content["target"]["classes"]}
    panel = report.contents(plain)["features"]["drawn"][0]["figure"]
    assert all(c["colour"] in panel for c in content["target"]["classes"])
    assert len(html.encode()) < 2_000_000


def test_many_classes_are_numbered():
    rng = np.random.default_rng(0)
    table = Table(rng.standard_normal((90, 8)), np.repeat(list("abcdef"), 15), tuple("ABCDEFGH"))
    analysis = analysis_of(table, "classification", halves=2, folds=2)
    first, *others = analysis.features
    content = report.contents(replace(analysis, features=(replace(first, selected=True), *others)))
    assert content["features"]["numbered"]
    assert [c["place"] for c in content["target"]["classes"]] == [1, 2, 3, 4, 5, 6]
    assert ">6</text>" in content["features"]["drawn"][0]["figure"]


def test_what_to_cite_is_what_the_citation_file_says():
    cff = (ROOT / "CITATION.cff").read_text()
    title, paper = re.findall(r'title: "(.*)"', cff)
    assert title in report.SOFTWARE
    assert re.search(r'- name: "(.*)"', cff).group(1) in report.SOFTWARE
    assert paper in report.PAPER
    assert re.search(r"year: (\d+)", cff).group(1) in report.PAPER
    for family, given in re.findall(r"family-names: (.*)\n\s*given-names: (.*)", cff):
        assert f"{family}, {given}" in report.PAPER


def test_a_missing_package_is_named_with_its_extra(plain, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"Writing a report needs jinja2.*pip install jinja2"):
        report.lay_out("report.html.j2", {"kind": "classification"})


# ---------------------------------------------------------------- the page as text


def test_names_are_text_wherever_they_appear(hostile_contents):
    html = report.render(hostile_contents)
    html.encode()
    page = Page(html)
    assert not page.open
    assert page.tags["img"] == page.tags["i"] == page.tags["b"] == 0
    assert page.tags["script"] == 2
    assert not [a for a in page.attributes if a[1].startswith("on")]
    links = [value for _, name, value in page.attributes if name in ("href", "src")]
    assert links
    assert all(value.startswith(("#", "data:")) for value in links)
    cells = {text for tag, text in page.texts if tag == "bdi"}
    assert {make_visible(name) for name in HOSTILE} <= cells
    assert {make_visible(name) for name in HOSTILE} == {v for _, name, v in page.attributes if name == "data-name"}
    drawn = {text for tag, text in page.texts if tag == "text"}
    assert HOSTILE[0] in drawn
    assert HOSTILE[1][:28] in drawn  # broken into lines
    assert "\u202e" not in html
    (inline,) = (text for tag, text in page.texts if tag == "script" and text.startswith("{"))
    assert json.loads(inline) == report._without_figures(hostile_contents)


@pytest.mark.slow
def test_the_page_needs_nothing_from_elsewhere(plain_html):
    html = plain_html
    assert not re.search(r"https?:|@import|url\((?!#)", html)
    policy = re.search(r"script-src '(sha256-[^']*)'", html).group(1)
    script = html.rpartition("<script>")[2].partition("</script>")[0]
    assert policy == "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in html


def test_ids_of_figures_are_unique(plain_html):
    html = plain_html
    ids = [value for _, name, value in Page(html).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    drawings = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(drawings) > 12
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        ids = {element.get("id") for element in root.iter()}
        assert {e.get("href")[1:] for e in root.iter("use")} <= ids
        assert not [e for e in root.iter() if e.tag in ("style", "metadata", "script")]
        assert "#000000" not in drawing
        assert root.get("aria-label")


def test_the_same_analysis_gives_the_same_file(plain, plain_html):
    assert report.render(report.contents(plain)) == plain_html


def test_summary_counts_selected_features_that_no_test_finds(hostile):
    doubtful = [replace(f, q=0.9, selected=at < 4) for at, f in enumerate(hostile.features)]
    said = summarise(replace(hostile, features=tuple(doubtful)))
    assert any("4 of the 4 selected have a q-value above 0.5" in sentence for sentence in said)
    sure = [replace(f, q=0.01, selected=at < 4) for at, f in enumerate(hostile.features)]
    assert not any("have a q-value above" in s for s in summarise(replace(hostile, features=tuple(sure))))


@pytest.mark.parametrize(
    ("design", "sentence"),
    [
        ("between", "The target is the same within every group"),
        ("within", "The target varies within every group"),
        ("mixed", "The target varies within some groups"),
    ],
)
def test_the_summary_says_how_groups_are_compared(rng, design, sentence):
    donor = np.repeat(np.arange(20), 3)
    y = (np.arange(60) % 3 == 0).astype(int)
    constant = {"between": donor < 20, "within": donor < 0, "mixed": donor < 15}[design]
    y[constant] = donor[constant] % 2
    X = rng.standard_normal((20, 8))[donor] + rng.standard_normal((60, 8))
    X[:, 0] += 3 * y
    table = Table(X, y, tuple(f"g{j}" for j in range(8)), groups=donor)
    analysis = analysis_of(table, "classification", halves=0, folds=0)
    assert any(text.startswith(sentence) for text in summarise(analysis))
    assert {feature.name: feature.q for feature in analysis.features}["g0"] < 0.01


def test_a_target_that_single_features_explain_leaves_no_pair_to_test(rng):
    y = np.repeat([0, 1], 15)
    X = rng.standard_normal((30, 200)) + 4 * y[:, None]
    names = tuple(f"g{j}" for j in range(200))
    scan = InteractionScan().fit(X, y)
    assert say_whether_pairs_hold(scan, names).startswith("No pair was tested: features that stand out alone explain")
    assert say_whether_pairs_hold(InteractionScan(order=1).fit(X, y), names) == "Pairs were not tested."
    analysis = analyse(Table(X, y, names), Settings(halves=0, folds=0))
    assert any(note.startswith("No pair was tested") for note in analysis.notes)


@pytest.mark.parametrize("order", [1, 2])
def test_the_best_pair_is_named_only_where_pairs_were_tested(rng, quick, order):
    table = Table(rng.standard_normal((60, 5)), np.arange(60) % 2, tuple("abcde"))
    settings = Settings(halves=0, folds=0, pairs="all" if order == 2 else "none")
    page = report.render(report.contents(analyse(table, settings)))
    scan = InteractionScan(order=order).fit(table.X, table.y)
    scanned = render_interactions(interaction_contents(scan, table, kind="classification"))
    assert ("best pair" in page) == ("best pair" in scanned) == (order == 2)


def test_the_legend_of_effects_says_what_is_not_corrected_and_names_no_selection_of_noise(plain, quick):
    page, noisy = report.render(report.contents(plain)), report.render(report.contents(noise()))
    for html in (page, noisy):
        assert "95 % confidence interval, not corrected for the number of features" in html
    assert "Selected features are red" in page
    assert "Selected features are red" not in noisy


@pytest.mark.parametrize(("pvalue", "is_said"), [(0.02, False), (0.05, True), (0.5, False)])
def test_a_p_value_that_usually_counts_as_a_signal_is_explained(plain, pvalue, is_said):
    path = replace(plain.path, noise_pvalue=pvalue)
    sentence = summarise(replace(plain, path=path, nothing_stands_out=pvalue > 0.02))[0]
    assert ("A signal needs a p-value of at most 0.02. " in sentence) == is_said


@pytest.mark.parametrize(("best", "words"), [(1, "The round with 1 feature (dotted"), (3, "with 3 features (dotted")])
def test_a_round_of_one_feature_is_written_in_the_singular(plain, quick, best, words):
    content = report.contents(plain)
    assert words in report.render({**content, "path": {**content["path"], "best": best}})
