"""Numbers, names and tables as text for people."""

import numpy as np
import pytest

from randsel._utils import text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (0.03124, "0.0312"),
        (110.0, "110"),
        (1234.4, "1234"),
        (123456.0, "123\u202f456"),
        (-0.5, "−0.500"),
        (3.14e-7, "3.14·10⁻⁷"),
        (2.5e12, "2.50·10¹²"),
        (9.9996e-5, "1.00·10⁻⁴"),
        (float("nan"), "–"),
        (None, "–"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers(value, expected):
    assert text.format_number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.2e-5, "3·10⁻⁵"),
        (9.7e-5, "1·10⁻⁴"),
        (0.00096, "0.001"),
        (0.034, "0.034"),
        (0.5, "0.50"),
        (1.0, "1"),
        (0.0, "< 10⁻³⁰⁰"),
        (5e-324, "< 10⁻³⁰⁰"),
        (float("nan"), "–"),
        (None, "–"),
    ],
)
def test_p_values(value, expected):
    assert text.format_p_value(value) == expected


def test_percentages_counts_and_fixed_digits():
    assert text.format_percent(0.944) == "94\u202f%"
    assert text.format_percent(float("nan")) == "–"
    assert [text.format_count(value) for value in (7, 2000, 13280)] == ["7", "2000", "13\u202f280"]
    assert [text.format_fixed(value) for value in (70.23, -0.01, -3.0, None)] == ["70.2", "0.0", "−3.0", "–"]


def test_invisible_characters_are_escaped():
    assert text.make_visible("abc\u202egnp.exe") == "abc\\u202egnp.exe"
    assert text.make_visible("\x00\ttab") == "\\u0000\\u0009tab"
    assert text.make_visible("größe 基因 🧬 👩\u200d🔬") == "größe 基因 🧬 👩\u200d🔬"


def test_messages_keep_line_breaks_and_nothing_else_that_acts_on_a_terminal():
    assert text.make_printable("two\nlines\x1b[31m") == "two\nlines\\u001b[31m"


def test_long_names_end_in_an_ellipsis():
    assert text.shorten("abcdef", 6) == "abcdef"
    assert text.shorten("abcdefg", 6) == "abcde…"


def test_class_labels_that_are_whole_numbers_have_no_point():
    labels = [*np.array([1.0, 2.5]), np.float32(3.0), 4, "five", True, np.int64(1234567)]
    assert [text.format_label(label) for label in labels] == ["1", "2.5", "3", "4", "five", "True", "1234567"]


def test_words_follow_the_count():
    assert [text.pluralise(count, "pair", "pairs") for count in (0, 1, 2)] == ["pairs", "pair", "pairs"]
    assert text.join_words(["a"]) == "a"
    assert text.join_words(["a", "b", "c"]) == "a, b and c"
