"""Writes what is made from the program itself: `make docs`, which a test asks for when it is stale.

The pages of `docs/tools/` come from the tools, `docs/playbook.schema.json` from the document model,
`docs/diagnostics.md` from the lessons of the language, `docs/keys.md` from what is declared of each
key, `docs/patterns.md` from playing the playbooks of patterns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from noetl import __version__
from noetl.dsl import json_schema
from noetl.dsl.document import Document, DocumentPart, spellings_of
from noetl.dsl.document.base import Key, declared_keys, parts_by_name
from noetl.dsl.document.docstrings import described_schema
from noetl.dsl.explain.lessons import page
from noetl.tools.kit import manual
from noetl.tools.kit.registry import entry_points, is_built_in, load
from noetl.tools.kit.registry import kinds as installed_kinds

FOLDER = Path(__file__).parent
# Patterns are played by what tests them.
sys.path.insert(0, str(FOLDER.parent))

from tests.playbooks.pattern_runs import FOLDER as PATTERNS  # noqa: E402 - the path comes first
from tests.playbooks.pattern_runs import ControlFlowPattern, Variant, in_order, patterns, play  # noqa: E402

SCHEMA = FOLDER / "playbook.schema.json"

_HEAD: Final = """\
# Keys of the language

This page is made from the models in `noetl/dsl/document` by `make docs`: every key of every part of a
playbook, what it holds, and what it is for. [The language](reference/README.md) explains them with examples,
[Dialects](dialects.md) those marked *older*. A duration is seconds above zero or a text like `500ms`, `10s`,
`5m`, `2h` or `1d`; a count is a whole number from one; both may be templates. Any key that begins with `x-`
is the author's own.
"""
_PATTERNS: Final = """\
# Control-flow patterns

The [workflow patterns](http://www.workflowpatterns.com/patterns/control/) of van der Aalst, ter
Hofstede, Russell and others are what control flow can be asked for, whatever the language. This
page is made by `make docs` from `tests/playbooks/patterns`: for each pattern a playbook, the key
that expresses it, and what is otherwise when that key is taken away. Each playbook is played in
all orders in which messages can come, in some of them where there are many, and its test has to
fail without the key.

{there} of the {all} patterns are there. [Next](reference/next.md), [Step](reference/step.md),
[Loop](reference/loop.md) and [Waits](reference/waits.md) explain the keys; `expires` is said by
who sends a signal.
"""
_TYPES: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "",
    "object": "mapping",
    "array": "list",
}
_REF: Final = "#/$defs/"
#: The version that pages show.
_RELEASE: Final = "0.1.0"


def pages() -> dict[str, str]:
    """The name of each file below `docs/` that is made, and what has to stand in it."""
    kinds = sorted(kind for kind in entry_points() if is_built_in(kind))
    manuals = {kind: manual.manual_of(load(kind)) for kind in kinds}
    texts = {f"tools/{kind}.md": manual.page(one) for kind, one in manuals.items()}
    # A message that names this version says another thing after each commit.
    diagnostics = page({kind: load(kind).info() for kind in kinds}).replace(__version__, _RELEASE)
    return {
        "diagnostics.md": diagnostics,
        "keys.md": keys_page(),
        "patterns.md": patterns_page(),
        "tools/README.md": manual.index(manuals),
        **texts,
    }


def patterns_page() -> str:
    """The control-flow patterns, each with what comes of its playbook with and without its key."""
    found = patterns()
    there = sum(bool(one.file) for one in found)
    head = _PATTERNS.format(there=there, all=len(found))
    rows = ["| WCP | pattern | what it says | key | without the key |", "|---|---|---|---|---|"]
    return "\n".join([head, *rows, *map(_pattern, found), ""])


def _pattern(one: ControlFlowPattern) -> str:
    if not one.file:
        return f"| {one.number} | {one.name} | {one.pattern} | *not there*: {one.waits_for} | |"
    whole = play(Variant(one, one.text, one.actions), in_order)
    assert not whole, f"WCP-{one.number} does not hold: {whole}"
    without = next(play(variant, in_order)[0] for variant in one.without_key())
    link = f"[{one.name}](../{(PATTERNS / one.file).relative_to(FOLDER.parent)})"
    return f"| {one.number} | {link} | {_cell(one.pattern)} | `{_cell(one.key)}` | {_cell(without)} |"


def keys_page() -> str:
    """The reference of keys, made of what the document model declares of them."""
    schema = described_schema(Document)
    parts = {"Document": schema, **dict(sorted(schema["$defs"].items()))}
    return "\n".join([_HEAD, *(_section(parts_by_name()[name], part) for name, part in parts.items())])


def _section(model: type[DocumentPart], part: Mapping[str, Any]) -> str:
    keys, spelled = declared_keys(model), spellings_of(model)
    rows = ["| key | holds | meaning |", "|---|---|---|"]
    for key, found in part["properties"].items():
        one = keys.get(key, Key())
        meant = [_older(one, found), found.get("description", "")]
        if key in spelled:
            meant = [spelled[key].meaning, *meant[1:]] if not meant[1] else meant
        holds = f"{one.unit} or template{_or_parts(found)}" if one.unit is not None else _holds(found)
        rows.append(f"| `{key}` | {_cell(holds)} | {_cell(' '.join(filter(None, meant)))} |")
    more = ["Other keys are those of the tool, or notes."] if model.is_open else []
    about = " ".join([" ".join(part["description"].split()), *_describe_needs(keys), *more])
    return "\n".join([f"## {model.__name__}", "", about, "", *rows, ""])


def _describe_needs(keys: Mapping[str, Key]) -> Iterator[str]:
    needed = ", ".join(f"`{key}`" for key, one in keys.items() if one.required)
    if needed:
        yield f"Needs {needed}."
    for key, one in keys.items():
        if one.required_unless:
            yield f"Without `{one.required_unless}` needs `{key}`."
        if one.required_if is not None:
            yield f"With `{one.required_if[0]}: {one.required_if[1]}` needs `{key}`."


def _older(key: Key, found: Mapping[str, Any]) -> str:
    if key.instead and found.get("deprecated"):
        return f"*Older*: write `{key.instead}`."
    if found.get("deprecated"):
        return "*Older.*"
    return f"Such as `{key.example}`." if key.example else ""


def _or_parts(found: Mapping[str, Any]) -> str:
    """The parts that may stand there besides a number or a text."""
    forms = (_holds(one) for one in _forms(found))
    return "".join(f" or {text}" for text in dict.fromkeys(forms) if "](#" in text)


def _forms(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    inner = found.get("anyOf") or found.get("oneOf")
    if inner is None:
        yield found
    for one in inner or ():
        yield from _forms(one)


def _holds(found: Mapping[str, Any]) -> str:
    """What may stand there, in words; parts with links to their sections."""
    forms = found.get("anyOf") or found.get("oneOf")
    if forms is not None:
        return " or ".join(dict.fromkeys(filter(None, map(_holds, forms))))
    if "$ref" in found:
        name = found["$ref"].removeprefix(_REF)
        return f"[{name}](#{name.lower()})"
    values = found.get("enum", [found["const"]] if "const" in found else None)
    if values is not None:
        return ", ".join(f"`{value}`" for value in values)
    if found.get("type") == "array":
        return f"list of {_holds(found.get('items', {}))}"
    inner = found.get("additionalProperties")
    if isinstance(inner, dict):
        return f"mapping of {_holds(inner)}"
    return _TYPES[found["type"]] if "type" in found else "any value"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def schema() -> str:
    """The JSON Schema of playbooks, with the tools that NoETL brings along."""
    kinds = {kind: info for kind, info in installed_kinds().items() if is_built_in(kind)}
    return json.dumps(json_schema(kinds), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Brings everything up to date."""
    SCHEMA.write_text(schema(), encoding="utf-8")
    tools = FOLDER / "tools"
    tools.mkdir(exist_ok=True)
    wanted = pages()
    for file in tools.glob("*.md"):
        if f"tools/{file.name}" not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
