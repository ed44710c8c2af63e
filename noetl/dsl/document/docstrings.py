"""The docstrings of keys, which stand behind the fields of their models. They are read from the
source: Python does not keep them, and only schemas and the reference need them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from noetl.dsl.document.base import DocumentPart, field_keys, parts_by_name


def described_schema(root: type[DocumentPart]) -> dict[str, Any]:
    """The JSON Schema of the part and of all that it holds (`$defs`), with the docstrings of keys
    as their descriptions."""
    schema = root.model_json_schema(by_alias=True)
    for name, part in {root.__name__: schema, **schema["$defs"]}.items():
        for key, text in _key_docstrings(parts_by_name()[name]).items():
            part["properties"][key]["description"] = text
    return schema


@cache
def _key_docstrings(model: type[DocumentPart]) -> Mapping[str, str]:
    """Key, as documents write it → its docstring, in the model or in one that it extends. Empty
    where Python runs without sources."""
    parts = [one for one in reversed(model.__mro__) if issubclass(one, DocumentPart)]
    found = {name: text for part in parts for name, text in _field_docstrings(part)}
    return {key: found[name] for name, key in field_keys(model).items() if name in found}


def _field_docstrings(model: type[DocumentPart]) -> Iterator[tuple[str, str]]:
    try:
        source = inspect.getsource(model)
    except OSError:
        return
    body = ast.parse(dedent(source)).body[0]
    assert isinstance(body, ast.ClassDef), f"{model.__name__} is a class"
    for field, text in pairwise(body.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                yield name, inspect.cleandoc(said)
            case _:
                pass
