"""Templates in python and SQL: those that are not rendered, and those whose text becomes part of
the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.notes import CompiledCall
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding
from noetl.dsl.read.python_code import templates_between

# An expression or statement, not the doubled braces of a format string.
_IN_CODE: Final = re.compile(r"\{\{\s*[A-Za-z_][\w.]*\s*(\||\}\}|\[)|\{%-?\s*(if|for|set)\b")
# What stands before a value in SQL.
_BEFORE_VALUE: Final = re.compile(
    r"(=|<|>|'|\(|,|\b(like|ilike|in|values|then|between|and|limit|offset|select))\s*$", re.IGNORECASE
)
# Filters after which nothing of the value can end the literal that it stands in.
_NUMERIC: Final = re.compile(r"\|\s*(int|float|length|count|round|abs)\s*(\([^()]*\)\s*)?$")
# The id of the execution is digits.
_ID: Final = re.compile(r"^[-\s]*(execution_id|job\.(uuid|execution_id))\s*(\|\s*string\s*)?$")
# What the engine counts.
_COUNT: Final = re.compile(
    r"^[-\s]*(__frame_max_rows|loop_index|iter\.index)\s*(\|\s*default\(\s*\d+\s*\)\s*)?$"
)
_QUOTES_DOUBLED: Final = re.compile(r"replace\(\s*(\"'\"|'\\'')")


def check_templates_in_code(subject: Subject) -> Iterator[Finding]:
    """Templates in code that is handed over as written: nobody renders them."""
    for call in subject.notes.calls:
        for key in call.task.verbatim:
            code = call.task.config[key]
            if isinstance(code, str) and (place := _in_code(call, key, code)) is not None:
                message, way = f"`{key}` is handed over as written", "hand the value over with input:"
                if key not in call.kind.verbatim:
                    message = f"{message}, because it comes with params"
                    way = "write :name and bind it in params:"
                message = f"{message}: the template in it is not rendered"
                hint, within = f"{way}, or set spec.render: true", (code, place)
                yield Finding(Code.TEMPLATE_IN_CODE, call.paths[key], message, hint, within)


def _in_code(call: CompiledCall, key: str, code: str) -> int | None:
    """Where the first template in `code` begins, other than in comments of python."""
    comments = templates_between(code).comments if key in call.kind.python_keys else ()
    places = (one.start() for one in _IN_CODE.finditer(code))
    return next((place for place in places if not _is_within(place, comments)), None)


def _is_within(place: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def check_rendered_code(subject: Subject) -> Iterator[Finding]:
    """Python that is rendered because of what stands in it, and not because the task asks for
    it."""
    for call, key, code in _rendered(subject):
        if key not in call.kind.python_keys or call.task.spec.get("render") is True:
            continue
        if between := templates_between(code).code:
            message = (
                f"a template stands in `{key}`, which is rendered: text from it becomes part of the code"
            )
            hint, within = "hand it over with input:", (code, between[0][0])
            yield Finding(Code.TEMPLATE_IN_CODE, call.paths[key], message, hint, within)


def check_interpolated_sql(subject: Subject) -> Iterator[Finding]:
    """A template in SQL where a value is meant; one for each statement."""
    for call, key, sql in _rendered(subject):
        if key in call.kind.python_keys or key not in call.kind.verbatim_with_params or not is_template(sql):
            continue
        for start, expression in _expressions(sql):
            if _BEFORE_VALUE.search(sql, max(0, start - 60), start) and not _is_safe(expression):
                message = (
                    "a template stands where SQL means a value: text from it becomes part of the statement"
                )
                hint = "write :name and params: {name: ...}"
                yield Finding(Code.SQL_INTERPOLATION, call.paths[key], message, hint, within=(sql, start))
                break


def _rendered(subject: Subject) -> Iterator[tuple[CompiledCall, str, str]]:
    """The texts of all tasks that are not handed over as written."""
    for call in subject.notes.calls:
        for key, value in call.task.config.items():
            if isinstance(value, str) and key not in call.task.verbatim:
                yield call, key, value


def _expressions(text: str) -> Iterator[tuple[int, str]]:
    """Where each `{{ ... }}` begins and what is in it."""
    start = text.find("{{")
    while start >= 0:
        end = text.find("}}", start)
        if end < 0:
            return
        yield start, text[start + 2 : end]
        start = text.find("{{", end)


def _is_safe(expression: str) -> bool:
    ended = expression.rstrip("- \n")
    counted = _ID.search(ended) or _COUNT.search(ended)
    return bool(counted or _NUMERIC.search(ended) or _QUOTES_DOUBLED.search(expression))
