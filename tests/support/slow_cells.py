"""Cells that do not end, for tests of time limits; a module of its own, so that child processes can import it.

Standard output of a cell is the standard error of the process that started it.
"""

import subprocess
import sys
import time

from randsel.experiments._cells import Cell, evaluate

RESULT = {"accuracy": 1.0, "balanced_accuracy": 1.0, "n_features": 1, "features": ["0"], "curve": {}, "seconds": 0.1}


def is_quick(cell):
    """Whether a cell ends at once; the first one does not."""
    if cell.method == "randSel" and cell.fold == 0:
        print("begun", flush=True)
        return False
    return True


def sleep_for_ever(cell, table):
    while not is_quick(cell):
        time.sleep(3600)
    return RESULT


def hold_the_interpreter(cell, table):
    """Spin in C code, during which no other thread of Python runs and no signal handler is called."""
    if not is_quick(cell):
        sum(range(10**14))
    return RESULT


def start_a_child(cell, table):
    if not is_quick(cell):
        subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)"], check=False)
    return RESULT


def end_the_process(cell, table):
    if not is_quick(cell):
        sys.exit(3)
    return RESULT


def print_and_read(cell, table):
    """Use standard input and output, through which the processes talk."""
    print("a cell says something")
    assert sys.stdin.read() == ""
    return evaluate(cell, table)


NEVER_ENDING = (sleep_for_ever, hold_the_interpreter, start_a_child)
FIRST_CELL = Cell("xor", "randSel", {}, ("median",), 3, 0, 0, 0, "")
