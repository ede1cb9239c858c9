"""Write docs/reference/command_line.md from the help of the commands.

python tools/command_line.py
"""

import inspect
import re
from pathlib import Path

import click

from randsel.cli import main as commands
from randsel.cli._main import READING

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command_line.md"
OPENING = """# Command line

Written by `make command-line` from the help of the commands, which `randsel COMMAND --help` shows with exit statuses.

    randsel [--debug] [--version] COMMAND [OPTIONS] [ARGUMENTS]

`--debug` shows where an error came from. [Output files and exit codes](outputs.md) explains the results.
"""
READING_TITLE = "Options for reading a table"


def as_markdown(text):
    """Return a text of the help in which options are code, and the page on formats is a link."""
    text = re.sub(r"(?<![\w`])(--[a-z][a-z0-9-]*)", r"`\1`", text.replace("<", "&lt;"))
    return re.sub(r"any\s+format\s+of\s+docs/reference/formats\.md", "any [format](formats.md)", text)


def option_rows(context, parameters):
    """Return a Markdown table of options."""
    rows = ["| option | meaning |", "|---|---|"]
    for parameter in parameters:
        name, meaning = (cell.replace("|", "\\|") for cell in parameter.get_help_record(context))
        rows.append(f"| `{name}` | {as_markdown(meaning)} |")
    return "\n".join(rows)


def description(command):
    """Return the help of a command as Markdown: what click does not wrap becomes a block of code.

    The list of exit statuses has a page of its own.
    """
    paragraphs = []
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        if paragraph.startswith("\b\nExit status"):
            continue
        if paragraph.startswith("\b\n"):
            title, *lines = paragraph.removeprefix("\b\n").splitlines()
            paragraphs.append(title + "\n\n" + "\n".join(f"  {line}" for line in lines))
        else:
            paragraphs.append(as_markdown(paragraph))
    return "\n\n".join(paragraphs)


def section(name, command, root):
    """Return the part of the page about a command."""
    context = click.Context(command, parent=root, info_name=name, **command.context_settings)
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    reads_table = "target" in {option.name for option in options}  # the option --features of demo is another one
    own = [option for option in options if not (reads_table and option.name in READING)]
    usage = "    " + " ".join(["randsel", name, *command.collect_usage_pieces(context)])
    parts = [f"## randsel {name}", usage, description(command)]
    absent = [f"`--{option.replace('_', '-')}`" for option in READING if option not in {o.name for o in options}]
    if reads_table:
        anchor = READING_TITLE.lower().replace(" ", "-")
        without = f", except {', '.join(absent)}" if absent else ""
        parts.append(f"It also takes the [{READING_TITLE.lower()}](#{anchor}){without}.")
    if own:
        parts.append(option_rows(context, own))
    return "\n\n".join(parts)


def page():
    """Return the page."""
    root = click.Context(commands, info_name="randsel", **commands.context_settings)
    sections = [section(name, command, root) for name, command in sorted(commands.commands.items())]
    shared = [parameter for parameter in commands.commands["select"].params if parameter.name in READING]
    reading = f"## {READING_TITLE}\n\n" + option_rows(root, shared)
    return "\n\n".join([OPENING.strip(), *sections, reading]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
