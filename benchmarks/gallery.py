"""Run the scripts in examples/ and write a page for each: its question, its code, what it printed, what it drew.

python benchmarks/gallery.py [NAME ...]
"""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def page(script):
    """Return the Markdown of one example, after running it; pictures go beside the page."""
    source = script.read_text()
    doc = ast.get_docstring(ast.parse(source))
    question, _, rest = doc.partition("\n")
    code = source.split('"""', 2)[2].strip()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTHONWARNINGS": "ignore", **os.environ}
        run = subprocess.run(
            [sys.executable, script], cwd=folder, capture_output=True, text=True, check=True, env=environment
        )
        pictures = sorted(Path(folder).glob("*.png"))
        for picture in pictures:
            (ROOT / "docs" / "gallery" / picture.name).write_bytes(picture.read_bytes())
    drawn = "".join(f"\n![{question}]({picture.name})\n" for picture in pictures)
    made = f"`examples/{script.name}`; this page is made by `make gallery`."
    return f"# {question}\n{rest}\n\n{made}\n\n```\n{run.stdout.strip()}\n```\n{drawn}\n```python\n{code}\n```\n"


def main():
    wanted = sys.argv[1:]
    scripts = [s for s in sorted((ROOT / "examples").glob("*.py")) if not wanted or s.stem in wanted]
    for script in scripts:
        text = page(script)
        (ROOT / "docs" / "gallery" / f"{script.stem}.md").write_text(text)
        sys.stdout.write(text.split("```python")[0] + "\n")


if __name__ == "__main__":
    main()
