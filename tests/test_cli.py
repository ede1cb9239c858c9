import subprocess
import sys

import pytest
from click.testing import CliRunner

from randsel import __version__, plots
from randsel.cli import main


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(main, list(args))


def test_demo_names_the_two_features_and_draws_the_path(run, tmp_path):
    out = tmp_path / "path.png"
    result = run("demo", "--out", str(out), "--features", "60", "--seed", "3")
    assert result.exit_code == 0
    assert "Selected: x0, x1" in result.output
    rounds = [line for line in result.output.splitlines() if line[:5].strip().isdigit()]
    assert [int(line[:5]) for line in rounds][:3] == [60, 45, 34]
    assert "none left" in rounds[-1]
    assert out.read_bytes().startswith(b"\x89PNG")


def test_demo_goes_on_without_matplotlib(run, tmp_path, monkeypatch):
    def missing(*args, **kwargs):
        msg = "Drawing needs matplotlib"
        raise ImportError(msg)

    monkeypatch.setattr(plots, "culling_path", missing)
    result = run("demo", "--out", str(tmp_path / "path.png"), "--features", "20")
    assert result.exit_code == 0
    assert "No picture: Drawing needs matplotlib" in result.stderr


def test_demo_with_a_file_that_cannot_be_written(run, tmp_path):
    result = run("demo", "--out", str(tmp_path / "no" / "such" / "path.png"), "--features", "20")
    assert isinstance(result.exception, SystemExit)
    assert "Error: " in result.output
    assert "No such file" in result.output
    assert "one class only" in run("demo", "--samples", "8", "--features", "3", "--seed", "7").output


def test_version_and_module(run):
    assert __version__ in run("--version").output
    found = subprocess.run([sys.executable, "-m", "randsel", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: randsel" in found.stdout
