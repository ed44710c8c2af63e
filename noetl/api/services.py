"""What the handlers of one application share."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask, current_app

from noetl.api.admission import Places
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

_KEY = "noetl"


@dataclass(frozen=True, slots=True)
class Services:
    """`places` are those of requests that wait."""

    rt: Runtime
    settings: Settings
    places: Places


def install(app: Flask, services: Services) -> None:
    """Makes `services()` answer inside requests of `app`."""
    app.extensions[_KEY] = services


def services() -> Services:
    """Those of the application that serves the current request."""
    found: Services = current_app.extensions[_KEY]
    return found
