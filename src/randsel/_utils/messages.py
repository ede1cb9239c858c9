"""Warnings of the package, which a caller may collect instead of showing them.

`warnings.catch_warnings` changes the state of the whole process, so that it fails with several threads: warnings of one
thread are shown, or lost, while another one catches its own. A context variable belongs to one thread.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[list[str] | None] = ContextVar("randsel_warnings", default=None)


def warn(message: str, *, stacklevel: int) -> None:
    """Show a UserWarning, with `stacklevel` as in `warnings.warn`; or add its message to those that are collected."""
    messages = _collected.get()
    if messages is None:
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)
    else:
        messages.append(message)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the warnings that the block raises in this thread, and yield the list of their messages."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)
