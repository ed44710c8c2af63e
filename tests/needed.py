"""What tests need of the machine: what cannot be had skips a test on a laptop, and fails it in
CI."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

from . import services

Running = TypeVar("Running")


@contextlib.contextmanager
def running(server: AbstractContextManager[Running], *, required: bool = True) -> Iterator[Running]:
    """The server for the length of a block. Where it is Missing the test is skipped, or fails in CI
    if it is `required`."""
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(server)
        except services.Missing as missing:
            if required and os.environ.get("CI"):
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        yield found
