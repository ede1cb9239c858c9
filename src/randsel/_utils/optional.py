"""The one place where optional packages are imported."""

from importlib import import_module
from types import ModuleType


def optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra brings it and what it is needed for."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed: pip install {package} (part of the extra '{extra}')."
        ) from error
