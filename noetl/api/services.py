"""What the handlers of one application share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flask import Flask, current_app

from noetl.config import Settings
from noetl.facts.json import JsonMap
from noetl.usecases.runtime import Runtime

_KEY = "noetl"

#: Event streams at once: each holds a thread of the server, which has eight unless told otherwise.
MAX_STREAMS: Final = 5


@dataclass(frozen=True, slots=True)
class Services:
    """`encrypt` seals the data of a credential."""

    rt: Runtime
    settings: Settings
    encrypt: Callable[[JsonMap], bytes]
    streams: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(MAX_STREAMS)
    )


def install(app: Flask, services: Services) -> None:
    """Makes `services()` answer inside requests of `app`."""
    app.extensions[_KEY] = services


def services() -> Services:
    """Those of the application that serves the current request."""
    found: Services = current_app.extensions[_KEY]
    return found
