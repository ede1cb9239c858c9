"""Import of optional packages."""

from importlib import import_module
from types import ModuleType


def optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise ImportError that names its purpose and the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed: pip install {package} (part of the extra '{extra}')."
        ) from error
