"""Lessons as Markdown: the section of one code, and the page of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.explain.lessons import LESSONS
from noetl.dsl.explain.lessons.lesson import STEPS, Lesson, whole
from noetl.dsl.explain.rendering import render
from noetl.dsl.problems import MEANING, Code, Problem, severity_of
from noetl.errors import NotFound
from noetl.net.model import KindInfo

FILE: Final = "playbook.yaml"
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
makes them errors. `noetl validate --explain CODE` prints one of these sections. The form of a problem is told
with [the command](cli.md#noetl-validate).

This page is made from `noetl/dsl/explain/lessons` by `make docs`; its examples are compiled by the tests.
"""


def page(kinds: Mapping[str, KindInfo]) -> str:
    """The page of all codes, for the installed `kinds`."""
    rows = [f"| [`{code}`](#{code.lower()}) | {severity_of(code)} | {MEANING[code]} |" for code in Code]
    parts = [_INTRODUCTION, "\n".join(["| code | severity | meaning |", "|---|---|---|", *rows]) + "\n"]
    for digit, title in _GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [section(code, kinds) for code in Code if code[len("NOETL")] == digit]
    return "\n".join(parts)


def section(code: Code, kinds: Mapping[str, KindInfo]) -> str:
    """What is told of one code."""
    lesson = LESSONS[code]
    meaning = MEANING[code]
    return (
        f"### {code}\n\n{meaning[0].upper()}{meaning[1:]}. "
        f"({severity_of(code).capitalize()}.)\n\n{lesson.why}\n\n"
        f"```yaml bad\n{_shown(lesson.bad)}```\n\n```text\n{_answer(lesson, kinds)}\n```\n\n"
        f"Better:\n\n```yaml\n{_shown(lesson.good)}```\n"
    )


def problems(example: str | bytes, kinds: Mapping[str, KindInfo]) -> tuple[tuple[Problem, ...], str]:
    """What `noetl validate` finds in an example, beside which no files are, and the text as it may
    be shown."""
    compiled = compile_playbook(whole(example), file=FILE, kinds=kinds, sources=_no_file, parse_sql=True)
    return compiled.problems, compiled.shown


def _answer(lesson: Lesson, kinds: Mapping[str, KindInfo]) -> str:
    """The text form of the problem, with lines counted as in what is shown."""
    found, text = problems(lesson.bad, kinds)
    before = STEPS.count("\n") if whole(lesson.bad) != lesson.bad else 0
    lines = text.split("\n")[before:]
    moved = dataclasses.replace(found[0], line=found[0].line - before)
    answer = render(moved, "\n".join(lines)) if len(text) < _WIDTH * _LINES else str(moved)
    return _printable(answer)


def _shown(example: str | bytes) -> str:
    text = example.decode("utf-8", "replace") if isinstance(example, bytes) else example
    lines = [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..." for line in text.splitlines()]
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], "..."]
    return _printable("\n".join(lines)) + "\n"


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else f"\\x{ord(one):02x}" for one in text)


def _no_file(name: str) -> str:
    raise NotFound(f"There is no file {name!r}.")
