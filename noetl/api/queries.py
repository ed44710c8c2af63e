"""Parameters of a query that a route does not have: a list that was to be narrowed by one would be
answered whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from flask import Request, Response, current_app
from pydantic import BaseModel

from noetl.api.groups import RouteGroup
from noetl.api.problems import refuse_all
from noetl.api.requests import Parameters
from noetl.facts.nearest import did_you_mean

#: Characters of what a caller wrote that an answer repeats.
_SHOWN: Final = 80


def refuse_unknown(request: Request) -> Response | None:
    """400 with every parameter that the route of the request does not have; None where there is no
    such one, and for what is no route of the API."""
    group = current_app.blueprints.get(request.blueprint or "")
    if not isinstance(group, RouteGroup) or not request.args:
        return None
    name = (request.endpoint or "").rpartition(".")[2]
    known = list(_names(group.queries.get(name)))
    unknown = {key: value for key, value in request.args.items() if key not in known}
    if not unknown:
        return None
    instead = _headers(group.headers.get(name))
    return refuse_all([(key[:_SHOWN], _say(key, value, known, instead)) for key, value in unknown.items()])


def _say(name: str, value: str, known: list[str], instead: Mapping[str, str]) -> str:
    header = instead.get(name.lower().replace("-", "_"))
    if header is not None:
        return f"this is no parameter here; send the header `{header.format(value[:_SHOWN])}`"
    near = did_you_mean(name, known)
    if near:
        return f"there is no such parameter here.{near}"
    there = f"there are {', '.join(known)}" if known else "this route takes none"
    return f"there is no such parameter here; {there}"


def _names(model: type[BaseModel] | None) -> Iterator[str]:
    if model is not None:
        yield from (field.alias or name for name, field in model.model_fields.items())


def _headers(model: type[BaseModel] | None) -> dict[str, str]:
    """The headers that a route takes, by what they are called where somebody puts them into the
    query."""
    if model is None:
        return {}
    named = {name: f"{field.alias or name}: {{}}" for name, field in model.model_fields.items()}
    return {**named, **(model.instead if issubclass(model, Parameters) else {})}
