"""Text for people: numbers, names, tables, progress, warnings, and what to install for an optional package.

Imports nothing that is slow to load, because the command line imports it before its first output.
"""

import csv
import io
import math
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from numbers import Integral, Real
from types import ModuleType
from typing import Any

LONGEST_MESSAGE = 1500  # maximum length of an error message, which may quote names as long as a line of a file
DASH = "–"  # shown in place of an unknown value
#: Zero-width joiners, which some scripts and emoji need; all other invisible characters are escaped.
JOINERS = "\u200c\u200d"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_number(value: float | None, digits: int = 3) -> str:
    """Write a number with `digits` significant digits: 0.0312, 1234, 3.14·10⁻⁷; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if -4 < int(exponent) < 6:
        text = f"{value:,.{max(digits - 1 - int(exponent), 0)}f}"
    else:
        text = f"{mantissa}·{format_power_of_ten(int(exponent))}"
    # thousands are separated by a narrow no-break space, except in numbers of four digits
    text = text.replace(",", "\u202f" if abs(value) >= 9999.5 else "")
    return text.replace("-", "−")


def format_p_value(value: float | None) -> str:
    """Write a p-value: 0.034, 3·10⁻⁵, < 10⁻³⁰⁰; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return DASH
    if value < 1e-300:
        return "< 10⁻³⁰⁰"
    if value < 0.001:
        return format_number(value, 1) if f"{value:.0e}" != "1e-03" else "0.001"
    return format_number(min(value, 1.0), 2) if value < 0.995 else "1"


def format_fixed(value: float | None, digits: int = 1) -> str:
    """Write a number with `digits` digits after the point; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return DASH
    # adding zero turns −0 into 0
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def format_percent(fraction: float | None) -> str:
    """Write a fraction in per cent; a dash for None and NaN."""
    return DASH if fraction is None or math.isnan(fraction) else f"{100 * fraction:.0f}\u202f%"


def format_count(value: int) -> str:
    """Write a whole number, in groups of three digits from 10 000."""
    return f"{value:,}".replace(",", "\u202f" if value >= 10_000 else "")


def format_power_of_ten(exponent: int) -> str:
    """Write a power of ten: 10⁻⁷."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def format_exact(value: float) -> str:
    """Write a number with all its digits, so that reading it returns the same number; nothing for NaN."""
    return "" if math.isnan(value) else repr(float(value))


def format_mean_and_sd(values: Any) -> str:
    """Write mean ± standard deviation of an array; the mean alone of a single value."""
    mean = f"{values.mean():.2f}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean}\u00a0±\u00a0{values.std(ddof=1):.2f}"


def format_range(counts: Any) -> str:
    """Write the smallest and the largest of an array of counts, or the one number if they are equal."""
    low, high = int(min(counts)), int(max(counts))
    return format_count(low) if low == high else f"{format_count(low)} to {format_count(high)}"


def make_visible(text: str, allowed: str = JOINERS) -> str:
    """Escape control and text-direction characters, which could hide text or act on a terminal, unless `allowed`."""
    return "".join(c if c.isprintable() or c in allowed else f"\\u{ord(c):04x}" for c in text)


def make_printable(text: str) -> str:
    """Escape all characters that could act on a terminal, except line breaks."""
    return make_visible(text, allowed="\n")


def shorten(text: str, length: int) -> str:
    """Cut a text to at most `length` characters, the last of them an ellipsis if it was longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def name_class(label: str) -> str:
    """Return the name of a class in a sentence: numbers need a word before them."""
    return f"class {label}" if re.fullmatch(r"[-−+]?\d+([.,]\d+)?", label) else label


def format_label(value: Any) -> str:
    """Write a class label; a whole floating-point number without its decimal point."""
    return f"{value:g}" if isinstance(value, Real) and not isinstance(value, Integral) else str(value)


def pluralise(count: int, singular: str, plural: str) -> str:
    """Return the singular for a count of one, else the plural."""
    return singular if count == 1 else plural


def split_names(names: str | None) -> list[str]:
    """Return the names of a comma-separated option; a name with a comma is quoted as in CSV: `"age, years",sex`."""
    return [name.strip() for name in next(csv.reader([names], skipinitialspace=True))] if names else []


def join_names(names: Iterable[str]) -> str:
    """Write names as `split_names` reads them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def join_words(words: Sequence[str]) -> str:
    """Join words with commas, and the last one with "and"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def list_first(names: Sequence[str], most: int) -> str:
    """Join the first `most` names with commas, and add an ellipsis if there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def as_markdown(rows: list[dict[str, str]]) -> str:
    """Return rows as a Markdown table."""
    titles = list(rows[0])
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    cells = [[" ".join(row[title].replace("|", "\\|").split()) for title in titles] for row in rows]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in cells])


def as_csv(rows: list[dict[str, str]]) -> str:
    """Return rows as a CSV table; an empty string if there are none."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def shorten_errors() -> Iterator[None]:
    """Cut the middle of a long ValueError message: the cause is at its start, the remedy at its end."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        if len(message) <= LONGEST_MESSAGE:
            raise
        raise ValueError(f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 4 :]}") from None


class ProgressLine:
    """Progress display on one line of standard error, if that is a terminal: step, percentage done, time left."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty()
        self.step, self.start, self.done_at_start = "", 0.0, 0.0

    def __call__(self, step: str, done: float, total: float) -> None:
        """Show how much of a step is done."""
        if not self.is_shown:
            return
        if step != self.step:
            self.step, self.start, self.done_at_start = step, time.monotonic(), done
        speed = (done - self.done_at_start) / max(time.monotonic() - self.start, 1e-9)
        left = ""
        if speed > 0.0 and done < total:
            seconds = (total - done) / speed
            left = f", {seconds:.0f} s left" if seconds < 90 else f", {seconds / 60:.0f} min left"
        self._write(f"{step}: {100 * done / max(total, 1e-9):.0f} %{left}")

    def end(self) -> None:
        """Remove the line."""
        if self.is_shown and self.step:
            self._write("")
            self.step = ""

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise ImportError that names its purpose and the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed: pip install {package} (part of the extra '{extra}')."
        ) from error


# ---------------------------------------------------------------- warnings
# A caller may collect the warnings of the package instead of showing them. `warnings.catch_warnings` changes the state
# of the whole process, so that it fails with several threads: warnings of one thread are shown, or lost, while another
# one catches its own. A context variable belongs to one thread.

_collected: ContextVar[list[str] | None] = ContextVar("randsel_warnings", default=None)


def warn(message: str, *, stacklevel: int) -> None:
    """Show a UserWarning, with `stacklevel` as in `warnings.warn`; or add its message to those that are collected."""
    messages = _collected.get()
    if messages is None:
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)
    else:
        messages.append(message)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the warnings that the block raises in this thread, and yield the list of their messages."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)
