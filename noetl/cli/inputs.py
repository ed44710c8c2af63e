"""What people type: payloads, overrides, files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import yaml

from noetl.errors import BadRequest
from noetl.facts.json import Json, JsonMap, deep_merge


def read_text(path: Path) -> str:
    """A file's text. Raises BadRequest that names the file and the cause."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BadRequest(f"There is no file {str(path)!r}.") from None
    except IsADirectoryError:
        raise BadRequest(f"{str(path)!r} is a directory, not a playbook.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{str(path)!r} cannot be read: {error}.") from error


def payload_of(given: str | None) -> JsonMap:
    """`--payload`: JSON text, or a file (`payload.json`, `@payload.yaml`). Raises BadRequest."""
    if given is None:
        return {}
    text = given.strip()
    if not text.startswith("{"):
        text = read_text(Path(text.removeprefix("@")))
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise BadRequest(f"--payload is neither JSON nor a file with JSON or YAML: {error}.") from error
    if not isinstance(value, dict):
        raise BadRequest("--payload must be a mapping, like '{\"name\": 1}'.")
    return value


def overrides_of(pairs: Iterable[str]) -> JsonMap:
    """`--set a.b=v`: dotted names, values typed as in YAML. Raises BadRequest."""
    merged: Json = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        parts = name.split(".")
        if not sign or not all(parts):
            raise BadRequest(
                f"--set {pair!r} is not an assignment; write --set name=value or --set a.b=value."
            )
        value: Any = _typed(text)
        for part in reversed(parts):
            value = {part: value}
        merged = deep_merge(merged, value)
    return dict(merged)


def _typed(text: str) -> Json:
    """A number, boolean, null, list or mapping where the text is one; else the text itself."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float | list | dict | None) and text else text


def json_out(value: Json) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))
