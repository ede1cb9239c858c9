"""Run the scripts in examples/ and write a page for each, with its question, code, output and figures.

python tools/gallery.py [NAME ...]
python tools/gallery.py --check    fail if the output of a script differs from its page; write nothing
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "gallery"
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))

#: The index, by what a user wants; every script is in it once.
ORDER = {
    "First steps": ["pipeline", "new_samples", "how_many", "survival", "paired"],
    "What acts together": ["xor_in_2000", "snp_pair", "regression", "echoes"],
    "How far to trust it": ["stable", "nothing_there", "batches", "covariates"],
}


def said(script):
    """Return the question, the text and the lesson of a script's docstring."""
    question, _, rest = ast.get_docstring(ast.parse(script.read_text())).partition("\n")
    text, _, lesson = rest.strip().partition("\n\nTo learn: ")
    return question, text, lesson


def outcome(script):
    """Run a script; return what it printed, and its pictures by name."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ}
        run = subprocess.run(
            [sys.executable, script], cwd=folder, capture_output=True, text=True, env=environment, check=False
        )
        if run.returncode:
            sys.exit(f"{script.name} failed:\n{run.stderr}")
        return run.stdout.strip(), {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.png"))}


def page(script, printed, pictures):
    """Return the Markdown of one example."""
    question, text, lesson = said(script)
    code = script.read_text().split('"""', 2)[2].strip()
    drawn = "".join(f"\n![{question}]({name})\n" for name in pictures)
    return (
        f"# {question}\n\n{text}\n\n**To learn:** {lesson}\n\n```text\n{printed}\n```\n{drawn}\n"
        f"`examples/{script.name}`:\n\n```python\n{code}\n```\n"
    )


def index():
    """Return the Markdown of the list of all examples."""
    lines = [
        "# Gallery",
        "",
        "Short scripts, each an answer to a question.",
    ]
    for heading, names in ORDER.items():
        lines += ["", f"## {heading}", "", "| question | |", "|---|---|"]
        for name in names:
            question, _, _ = said(ROOT / "examples" / f"{name}.py")
            lines.append(f'| [{question}]({name}.md) | <img src="{name}.png" alt="" width="180"> |')
    return "\n".join(lines) + "\n"


def check(scripts):
    """Run scripts and compare what they print with their pages."""
    wrong = []
    for script in scripts:
        printed, _ = outcome(script)
        written = re.search(r"```text\n(.*?)\n```", (PAGES / f"{script.stem}.md").read_text(), re.DOTALL).group(1)
        same = written == printed
        print(f"{script.name}: {'as on its page' if same else 'differs from its page'}")
        wrong += [] if same else [script.name]
    if wrong:
        sys.exit(f"{', '.join(wrong)}: look at what changed, then run make gallery.")


def main():
    """Write the pages, or check them."""
    wanted = [name for name in sys.argv[1:] if name != "--check"]
    scripts = [script for script in SCRIPTS if not wanted or script.stem in wanted]
    if "--check" in sys.argv:
        check(scripts)
        return
    for script in scripts:
        printed, pictures = outcome(script)
        print(f"== {script.name}\n{printed}")
        (PAGES / f"{script.stem}.md").write_text(page(script, printed, pictures))
        for name, content in pictures.items():
            (PAGES / name).write_bytes(content)
    (PAGES / "index.md").write_text(index())


if __name__ == "__main__":
    main()
