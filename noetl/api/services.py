"""What the handlers of one application share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, current_app

from noetl.api.admission import Places
from noetl.config import Settings
from noetl.facts.json import JsonMap
from noetl.usecases.runtime import Runtime

_KEY = "noetl"


@dataclass(frozen=True, slots=True)
class Services:
    """`encrypt` seals the data of a credential; `places` are those of requests that wait."""

    rt: Runtime
    settings: Settings
    encrypt: Callable[[JsonMap], bytes]
    places: Places


def install(app: Flask, services: Services) -> None:
    """Makes `services()` answer inside requests of `app`."""
    app.extensions[_KEY] = services


def services() -> Services:
    """Those of the application that serves the current request."""
    found: Services = current_app.extensions[_KEY]
    return found
