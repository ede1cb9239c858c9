"""Entry point of `python -m randsel`."""

from randsel.cli._main import main

main(prog_name="randsel")
