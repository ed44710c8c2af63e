"""Mappings that somebody gives as text, in JSON or YAML: payloads, and values of options."""

from __future__ import annotations

from noetl.dsl.read.source import read
from noetl.errors import BadRequest
from noetl.facts.json import Json, JsonMap, loads_exactly


def read_mapping(text: str, place: str) -> JsonMap:
    """A mapping in JSON or YAML; `place` says where it stands. Raises BadRequest."""
    try:
        return _parse_json(text, place)
    except (ValueError, RecursionError):
        return read_yaml_mapping(text, place)


def read_json_mapping(text: str, place: str) -> JsonMap:
    """Raises BadRequest."""
    try:
        return _parse_json(text, place)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{place} is not JSON: {error}.") from error


def _parse_json(text: str, place: str) -> JsonMap:
    value = loads_exactly(text, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise BadRequest(f"{place} must hold a mapping, like '{{\"name\": 1}}'.")
    return value


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def read_yaml_mapping(text: str, place: str) -> JsonMap:
    """Raises BadRequest."""
    source = read(text, place)
    errors = [problem for problem in source.problems if problem.severity == "error"]
    if errors or source.data is None:
        raise BadRequest(f"{errors[0] if errors else place}: it must be a mapping of JSON or YAML.")
    return source.data
