"""An `Analysis` to HTML, CSV and terminal output."""
