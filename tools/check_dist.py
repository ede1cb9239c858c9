"""Check the contents of the wheel and the source distribution, and that each installs in a new environment and runs.

python tools/check_dist.py dist
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSIDE = [
    "py.typed",
    "templates/report.html.j2",
    "templates/style.css.j2",
    "templates/table.js",
    "experiments/table1.toml",
    "experiments/table2.toml",
]
#: Tests that need little beside the package; some of each kind.
TESTS = ["tests/test_alignment.py", "tests/test_culling.py", "tests/test_guarantees.py", "tests/test_layout.py"]


def run(*command, cwd):
    """Run a command; its output, or the end of the check."""
    outcome = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if outcome.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{outcome.stdout}{outcome.stderr}")
    return outcome.stdout


def check_inside(names, archive, folder):
    """Check that the files that are no Python are there."""
    missing = [name for name in INSIDE if f"{folder}/{name}" not in names]
    if missing:
        sys.exit(f"{archive} lacks {', '.join(missing)}.")
    print(f"{archive}: {len(names)} files, {', '.join(INSIDE)} among them")


def install(file, folder, extra):
    """Install into a fresh environment, at the versions of the lock, and run the demo; return its Python."""
    run(sys.executable, "-m", "venv", folder, cwd=ROOT)
    python = folder / "bin" / "python"
    constraint = ["--constraint", ROOT / "requirements-dev.lock"]
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    run(*pip, *constraint, f"{file}[{extra}]", cwd=folder)
    command = folder / "bin" / "randsel"
    said = run(command, "demo", "--out", "demo.png", cwd=folder)
    if "Selected: x0, x1" not in said or not (folder / "demo.png").stat().st_size:
        sys.exit(f"{file.name}: the demo does not find the two features:\n{said}")
    where = run(python, "-c", "import randsel; print(randsel.__file__)", cwd=folder).strip()
    if not Path(where).is_relative_to(folder):
        sys.exit(f"{file.name}: what runs is {where}, not what was installed.")
    run(
        python,
        "-c",
        "from importlib.resources import files; "
        "files('randsel.report').joinpath('templates/report.html.j2').read_text()",
        cwd=folder,
    )
    print(
        f"{file.name}: {run(command, '--version', cwd=folder).strip()} installed, demo finds x0 and x1, picture drawn"
    )
    return python, pip + constraint


def main():
    """Check both."""
    dist = Path(sys.argv[1]).resolve()
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_inside(zipfile.ZipFile(wheel).namelist(), wheel.name, "randsel")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(source) as archive:
        top = source.name.removesuffix(".tar.gz")
        check_inside(archive.getnames(), source.name, f"{top}/src/randsel")
        install(wheel, Path(folder) / "wheel", "plot,report")
        python, pip = install(source, Path(folder) / "source", "plot,report,pandas")
        archive.extractall(folder, filter="data")
        run(*pip, "pytest", "hypothesis", cwd=folder)
        said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, cwd=Path(folder) / top)
        print(f"{source.name}: {said.strip().splitlines()[-1].strip('= ')}, run from it")


if __name__ == "__main__":
    main()
