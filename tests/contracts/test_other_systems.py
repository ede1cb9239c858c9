"""Importing and fitting need no module or function that only Unix has."""

import subprocess
import sys

#: What Windows does not have, made unavailable before the package is imported.
WITHOUT_UNIX = """
import os, signal, sys

MASKS = ("pthread_sigmask", "pthread_kill", "sigwait")
for module in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[module] = None
for name in ("SIGALRM", "SIGXCPU", "SIGKILL", "SIGHUP", "setitimer", "alarm", "ITIMER_REAL", *MASKS):
    delattr(signal, name)
for name in ("fork", "killpg", "getpgid", "setsid", "geteuid", "getuid", "O_NOFOLLOW", "posix_spawn"):
    delattr(os, name)

import warnings
import numpy as np
import randsel
from randsel import InteractionScan, RandSel, datasets, tables

for name in randsel.__all__:
    getattr(randsel, name)
X, y, _ = datasets.make_xor(150, 8, random_state=0)
fitted = RandSel(2).fit(X, y)
assert list(RandSel(2, checkpoint="fit").fit(X, y).order_) == list(fitted.order_)
InteractionScan(2).fit(X, y)
InteractionScan(2, checkpoint="scan").fit(X, y)
with open("table.csv", "w") as file:
    file.write(",".join(f"g{j}" for j in range(8)) + ",status\\n")
    for row, label in zip(X, y):
        file.write(",".join(map(str, row)) + f",{label}\\n")
assert tables.read("table.csv", target="status").X.shape == (150, 8)

from click.testing import CliRunner
from randsel.cli import main

words = ["select", "table.csv", "--target", "status", "--out", "out", "--halves", "2", "--folds", "2"]
result = CliRunner().invoke(main, words)
assert result.exit_code in (0, 3), result.output
words = ["compare", "table.csv", "--target", "status", "--out", "cells", "--folds", "2", "--reshuffles", "1"]
result = CliRunner().invoke(main, [*words, "--methods", "Corr. Coeff."])
assert result.exit_code == 0, result.output
main([*words, "--methods", "Corr. Coeff."], standalone_mode=False)
"""


def test_the_package_is_imported_and_fitted_without_unix(tmp_path):
    # filelock warns that it has no lock of the system here; on Windows it has one
    command = [sys.executable, "-W", "error", "-W", "ignore:only soft file lock is available", "-c", WITHOUT_UNIX]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
