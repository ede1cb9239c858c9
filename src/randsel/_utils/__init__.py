"""Files, jobs, progress and optional imports; imports nothing else of the package."""
