"""References to results in the configuration of a tool, handed over unopened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from noetl.errors import BadRequest, NotFound, ToolError, Unavailable
from noetl.facts.json import Json
from noetl.facts.reference import Lazy, is_reference
from noetl.usecases.ports import Results


def loaded(value: Json, results: Results | None, place: str) -> Json:
    """What `value` stands for where it is a reference, else `value`. Raises ToolError that names `place`."""
    if not is_reference(value):
        return value
    if results is None:
        raise ToolError("client_error", f"{place} is a reference, and this process has no result store.")
    try:
        return results.load(value)
    except (NotFound, BadRequest) as error:
        raise ToolError("client_error", f"{place} cannot be read: {error}", type="BadReference") from error
    except Unavailable as error:
        raise ToolError(
            "connection", f"{place} cannot be read: {error}", retryable=True, type="StoreUnavailable"
        ) from error


def rows_in(given: Json) -> Json:
    """The rows in what a playbook hands over: those of `{rows: ...}`, as SQL tools yield them, or `given` itself."""
    if isinstance(given, Mapping) and not is_reference(given):
        return given.get("rows")
    return given


def rows_of(given: Json, results: Results | None, place: str) -> Json:
    """The same, with references opened: a list, one that is read lazily, or whatever else it is."""
    found = rows_in(loaded(given, results, place))
    return rows_in(loaded(found, results, place))


def pages(rows: Sequence[Json]) -> Iterator[Sequence[Json]]:
    """The rows in order, a bounded part of them at a time where they are read lazily."""
    return rows.pages() if isinstance(rows, Lazy) else iter([rows])
