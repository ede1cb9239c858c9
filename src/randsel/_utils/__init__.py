"""Helpers for files, child processes, parallel jobs, text and optional imports. Imports no other subpackage."""
