"""Mappings of values that people type: JSON, or YAML as playbooks have it."""

from __future__ import annotations

import json

from noetl.dsl.read.source import read
from noetl.errors import BadRequest
from noetl.facts.json import Json, JsonMap


def read_mapping(text: str, place: str) -> JsonMap:
    """A mapping in JSON or YAML. Raises BadRequest that names `place`."""
    try:
        return parse_json(text, place)
    except (ValueError, RecursionError):
        return read_yaml(text, place)


def parse_json(text: str, place: str) -> JsonMap:
    """Raises ValueError where it is no JSON, and BadRequest where it is no mapping."""
    value = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise BadRequest(f"{place} must hold a mapping, like '{{\"name\": 1}}'.")
    return value


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def read_yaml(text: str, place: str) -> JsonMap:
    """Raises BadRequest."""
    source = read(text, place)
    errors = [problem for problem in source.problems if problem.severity == "error"]
    if errors or source.data is None:
        raise BadRequest(f"{errors[0] if errors else place}: it must be a mapping of JSON or YAML.")
    return source.data
