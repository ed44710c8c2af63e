"""Applications that tests borrow in turn: to make one costs a tenth of a second of a processor, and
its templates are compiled once more.

All that an application knows of a runtime, of settings and of requests before stands in its
extensions. Who borrows one finds it as `create_app` would have left it, with pages. What changes
its routes needs one of its own (`new_app`); Flask refuses such a change behind the first request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from flask import Flask
from flask_openapi3.utils import run_validate_response

from noetl.api import context
from noetl.api.app import create_app, make_context
from noetl.config import Settings
from noetl.ui import pages, site
from noetl.usecases.runtime import Runtime
from noetl.wsgi import make_site

Lend: TypeAlias = Callable[[Runtime, Settings], Flask]


def new_app(rt: Runtime, settings: Settings) -> Flask:
    """An application that nobody else has: the API, and its pages."""
    app = create_app(rt, settings)
    pages.register(app, make_site(rt, settings))
    app.validate_response = True  # type: ignore[attr-defined]
    app.validate_response_callback = _as_documented  # type: ignore[attr-defined]
    return app


def _as_documented(answer: Any, responses: dict[int, Any]) -> Any:
    """Holds every JSON answer of every test against the model that documents it, where there is
    one."""
    models = {status: model for status, model in responses.items() if isinstance(model, type)}
    return run_validate_response(answer, models)


class Lending:
    """The applications of a run."""

    def __init__(self) -> None:
        self._spare: list[Flask] = []
        self._lent: list[Flask] = []

    def borrow(self, rt: Runtime, settings: Settings) -> Flask:
        """An application over that runtime. Raises ConfigError, as `create_app` does."""
        if not self._spare:
            self._spare.append(new_app(rt, settings))
        made = {context.KEY: make_context(rt, settings), site.KEY: make_site(rt, settings)}
        app = self._spare.pop()
        self._lent.append(app)
        app.extensions.clear()
        app.extensions.update(made)
        return app

    def take_back(self) -> None:
        """Those that are lent, without anything of who had them."""
        for app in reversed(self._lent):
            app.extensions.clear()
            app.test_client_class = None
        self._spare += reversed(self._lent)
        self._lent.clear()
