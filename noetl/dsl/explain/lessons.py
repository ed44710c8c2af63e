"""What each code means, why it matters, and how to do better: `docs/diagnostics.md` and `noetl
validate --explain`. The texts stand in `lessons.yaml`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.explain.rendering import render
from noetl.dsl.problems import MEANING, Code, Problem, severity_of
from noetl.errors import NotFound
from noetl.net.model import KindInfo

_HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\n"
#: Makes a playbook of a list of steps.
_STEPS: Final = f"{_HEAD}metadata: {{name: example, path: docs/example}}\nworkflow:\n"
#: Bad examples that are too large for `lessons.yaml`, or that no YAML can hold.
_BAD: Final[Mapping[Code, str | bytes]] = {
    Code.ENCODING: b"workflow:\n- {step: start, desc: caf\xe9}\n",
    Code.TOO_LARGE: f"{_HEAD}workload:\n  rows: [{'1234567, ' * 30_000}]\n",
    Code.TOO_MANY_NODES: f"{_HEAD}workload:\n  a: &a {[*range(1_000)]}\n  b: [{'*a, ' * 24}*a]\n",
    Code.TOO_MANY_STEPS: f"{_HEAD}workflow:\n"
    + "".join(f"- {{step: s{n}, next: s{n + 1}}}\n" for n in range(1_000))
    + "- {step: s1000}\n",
}

_FILE: Final = "playbook.yaml"
#: Lines of an example, and characters of a line, that are shown.
_LINES: Final = 20
_WIDTH: Final = 120
_GROUPS: Final[Mapping[str, str]] = {
    "1": "The text",
    "2": "The structure",
    "3": "References",
    "4": "Templates and code",
    "5": "The flow",
}
_INTRODUCTION: Final = """\
# Diagnostics

Every problem that `noetl validate` finds has a code, which never changes its meaning. Codes from 50 on within
each hundred are warnings: the playbook runs, and likely does something else than what was meant; `--strict`
makes them errors. Those from 90 on are notes, which `--strict` leaves alone: nothing need be wrong.
`noetl validate --explain CODE` prints one of these sections. The form of a problem is described with
[the command](cli.md#noetl-validate).

This page is made from `noetl/dsl/explain/lessons.yaml` by `make docs`; the tests compile its examples.
"""


@dataclass(frozen=True, slots=True)
class Lesson:
    """`why` it matters, in Markdown; a `bad` example, whose problem points at the words `at` (at
    its beginning where there are none); and the same thing said well. Examples are playbooks, or
    lists of steps."""

    why: str
    bad: str | bytes
    good: str
    at: str = ""


@cache
def lessons() -> Mapping[Code, Lesson]:
    """The lesson of every code."""
    texts = yaml.safe_load(Path(__file__).with_name("lessons.yaml").read_text("utf-8"))
    return {code: Lesson(**{"bad": _BAD.get(code)} | texts[code]) for code in Code}


def whole(example: str | bytes) -> str | bytes:
    """The playbook that the example is, or is a part of."""
    return _STEPS + example if isinstance(example, str) and example.startswith("- step:") else example


def page(kinds: Mapping[str, KindInfo]) -> str:
    """The page of all codes, for the installed `kinds`."""
    rows = [f"| [`{code}`](#{code.lower()}) | {severity_of(code)} | {MEANING[code]} |" for code in Code]
    parts = [_INTRODUCTION, "\n".join(["| code | severity | meaning |", "|---|---|---|", *rows]) + "\n"]
    for digit, title in _GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [section(code, kinds) for code in Code if code[len("NOETL")] == digit]
    return "\n".join(parts)


def section(code: Code, kinds: Mapping[str, KindInfo]) -> str:
    """The section of one code."""
    lesson, meaning = lessons()[code], MEANING[code]
    return (
        f"### {code}\n\n{meaning[0].upper()}{meaning[1:]}. "
        f"({severity_of(code).capitalize()}.)\n\n{lesson.why}\n\n"
        f"```yaml bad\n{_shorten(lesson.bad)}```\n\n```text\n{_render_problem(lesson, kinds)}\n```\n\n"
        f"Better:\n\n```yaml\n{_shorten(lesson.good)}```\n"
    )


def problems(example: str | bytes, kinds: Mapping[str, KindInfo]) -> tuple[tuple[Problem, ...], str]:
    """What `noetl validate` finds in an example, beside which no files are, and the text as it may
    be shown."""
    compiled = compile_playbook(whole(example), file=_FILE, kinds=kinds, sources=_no_file, parse_sql=True)
    return compiled.problems, compiled.shown


def _render_problem(lesson: Lesson, kinds: Mapping[str, KindInfo]) -> str:
    """The text form of the problem, with lines counted as in what is shown."""
    found, text = problems(lesson.bad, kinds)
    before = _STEPS.count("\n") if whole(lesson.bad) != lesson.bad else 0
    lines = text.split("\n")[before:]
    moved = dataclasses.replace(found[0], line=found[0].line - before)
    rendered = render(moved, "\n".join(lines)) if len(text) < _WIDTH * _LINES else str(moved)
    return _printable(rendered)


def _shorten(example: str | bytes) -> str:
    text = example.decode("utf-8", "replace") if isinstance(example, bytes) else example
    lines = [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..." for line in text.splitlines()]
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], "..."]
    return _printable("\n".join(lines)) + "\n"


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else f"\\x{ord(one):02x}" for one in text)


def _no_file(name: str) -> str:
    raise NotFound(f"There is no file {name!r}.")
