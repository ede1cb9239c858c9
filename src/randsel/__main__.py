"""`python -m randsel`."""

from randsel.cli import main

main(prog_name="randsel")
