"""What the handlers of one application share."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask, current_app

from noetl.api.admission import WaitingPlaces
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

_KEY = "noetl"


@dataclass(frozen=True, slots=True)
class ApiContext:
    """`places` are those of requests that wait."""

    rt: Runtime
    settings: Settings
    places: WaitingPlaces


def install(app: Flask, services: ApiContext) -> None:
    """Makes `services()` answer inside requests of `app`."""
    app.extensions[_KEY] = services


def services() -> ApiContext:
    """Those of the application that serves the current request."""
    found: ApiContext = current_app.extensions[_KEY]
    return found
