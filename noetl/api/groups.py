"""Groups of routes, which are described where somebody asks for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from flask_openapi3.types import ParametersTuple
from flask_openapi3.utils import parse_parameters
from pydantic import BaseModel

from noetl.api.answers import Problem
from noetl.api.problems import MEDIA_TYPE


def _problem(description: str) -> dict[Any, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }


#: Errors that any route may answer with.
_ERRORS: Final[dict[str | int | HTTPStatus, type[BaseModel] | dict[Any, Any] | None]] = {
    "400": _problem("The request cannot be used."),
    "401": _problem("A token is needed, or the one that was sent is not good."),
    "403": _problem("Who asks may not do that."),
    "429": _problem("Too many requests, or too much waits already; `Retry-After` says when to come again."),
    "4XX": _problem("What was named does not exist, or is in another state."),
    "503": _problem("The database does not answer."),
}


class RouteGroup(APIBlueprint):
    """Routes below one address. The framework would describe each as it is added, which builds
    every model of the API and takes a start a quarter of a second: that waits for `describe`."""

    def __init__(self, name: str, import_name: str, **attributes: Any) -> None:
        super().__init__(name, import_name, **attributes)
        self._waiting: list[Callable[[], object]] = []
        self._taken: list[type[BaseModel]] = []
        #: What each function takes as headers, and as parameters of the query.
        self.headers: dict[str, type[BaseModel] | None] = {}
        self.queries: dict[str, type[BaseModel] | None] = {}

    def _collect_openapi_info(
        self, rule: str, func: Callable[..., Any], **attributes: Any
    ) -> ParametersTuple:
        self._waiting.append(partial(super()._collect_openapi_info, rule, func, **attributes))
        models = parse_parameters(func, doc_ui=False)
        self.headers[func.__name__], _, _, self.queries[func.__name__], *_ = models
        self.take(*(one for one in models if one is not None and issubclass(one, BaseModel)))
        return models

    def take(self, *models: type[BaseModel]) -> None:
        """Names models that requests are read as."""
        self._taken += models

    def build_models(self) -> None:
        """Builds the models of what its routes take. Two requests must not do that at once, which
        older versions of pydantic do not see to."""
        for model in self._taken:
            model.model_rebuild()

    def describe(self) -> None:
        """Makes its part of the document, in the order in which routes were added. To be asked for
        once."""
        for describe_route in self._waiting:
            describe_route()


def group(name: str, url_prefix: str, about: str) -> RouteGroup:
    """Routes below `url_prefix`, under one heading of the OpenAPI document; any may answer with a
    problem."""
    return RouteGroup(
        name,
        __name__,
        url_prefix=url_prefix,
        abp_tags=[Tag(name=name, description=about)],
        abp_responses=_ERRORS,
    )
