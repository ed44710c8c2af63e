"""Python and SQL of tasks: their syntax, templates in them, and statements that claim rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.compile.cursors import NO_CODE
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding, Path
from noetl.dsl.read.python_code import Fault, parse_python, templates_between
from noetl.errors import NoetlError
from noetl.net.model import Template

#: Python names another line of the code.
_ON_LINE: Final = re.compile(r" on line (\d+)")


def check_python(subject: Subject) -> Iterator[Finding]:
    """Python code that cannot be parsed, in the playbook."""
    for call in subject.notes.calls:
        for key, code in python_in(call):
            if isinstance(tree := parse_python(code), Fault):
                path, before = call.paths[key], code.split("\n")[: tree.line - 1]
                # What is missing at the end is missing behind the last word.
                end = max(len(code.rstrip()) - 1, 0)
                place = min(sum(len(one) + 1 for one in before) + tree.column - 1, end)
                yield Finding(
                    Code.PYTHON,
                    path,
                    f"python: {_with_lines(subject, code, path, tree.message)}",
                    "the line is that of the playbook",
                    within=(code, place),
                )


def _with_lines(subject: Subject, code: str, path: Path, message: str) -> str:
    """`message` with the lines of the playbook in which those of `code` stand."""

    def line(found: re.Match[str]) -> str:
        before = sum(len(one) + 1 for one in code.split("\n")[: int(found[1]) - 1])
        place = subject.source.position(path, code, before)
        return f" on line {found[1] if place is None else place[0]}"

    return _ON_LINE.sub(line, message)


def python_in(call: CompiledCall) -> Iterator[tuple[str, str]]:
    """The python code that a task has as it is written, by key."""
    for key in call.kind.python_keys:
        if isinstance(code := call.task.config.get(key), str) and key in call.task.verbatim:
            yield key, code


def check_files(subject: Subject) -> Iterator[Finding]:
    """Files that tasks name: whether they are there, and the syntax of python in them."""
    for call, key, name in _files(subject):
        text = text_of_file(subject, name)
        if isinstance(text, NoetlError):
            yield Finding(
                Code.FILE,
                call.paths[key],
                text.message.rstrip("."),
                "name a file from the playbook's directory on",
            )
        elif call.kind.python_keys and isinstance(tree := parse_python(text), Fault):
            yield Finding(
                Code.PYTHON,
                call.paths[key],
                f"python: {name}:{tree.line}: {tree.message}",
                "the line is that of the script",
            )


def _files(subject: Subject) -> Iterator[tuple[CompiledCall, str, str]]:
    """The files that tasks name, each with the key that names it."""
    for call in subject.notes.calls:
        yield from ((call, key, name) for key, name in files_of(subject, call))


def files_of(subject: Subject, call: CompiledCall) -> Iterator[tuple[str, str]]:
    """The files that a task names, by key; none where they are not read, or not known yet."""
    for key in call.kind.source_files if subject.files is not None else ():
        named = call.task.config.get(key)
        # A text names a script of python; where it is SQL it is SQL.
        name: Template = named if call.kind.python_keys else None
        if isinstance(named, Mapping):
            name = named.get("file") or named.get("path")
        if isinstance(name, str) and not is_template(name) and "://" not in name:
            yield key, name


def text_of_file(subject: Subject, name: str) -> str | NoetlError:
    """The text of a file, or why it cannot be read."""
    try:
        return subject.files(name) if subject.files is not None else ""
    except NoetlError as error:
        return error


def check_sql(subject: Subject) -> Iterator[Finding]:
    """SQL without templates that its database could not parse. Loads the parsers of the kinds."""
    if not subject.parse_sql:
        return
    for call in subject.notes.calls:
        for key in call.task.config.keys() & set(call.kind.verbatim_with_params):
            value, path = call.task.config[key], call.paths[key]
            if isinstance(value, list):
                for place, text in enumerate(value):
                    yield from _sql_fault(call, text, (*path, place))
            else:
                yield from _sql_fault(call, value, path)
    for call, key, name in _files(subject):
        text = text_of_file(subject, name)
        if not call.kind.python_keys and isinstance(text, str):
            yield from _sql_fault(call, text, call.paths[key], name)


def _sql_fault(call: CompiledCall, text: Template, path: Path, file: str = "") -> Iterator[Finding]:
    if not isinstance(text, str) or is_template(text) or not text.strip():
        return
    fault = call.kind.parse(text, isinstance(call.task.config.get("params"), Mapping))
    if fault is not None:
        offset, why = fault
        within = None if file else (text, offset)
        yield Finding(
            Code.SQL_SYNTAX,
            path,
            f"SQL: {f'{file}: ' if file else ''}{why}",
            f"{call.kind.kind} would refuse it",
            within,
        )


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
    """Templates in code that is passed to the tool as written: it is not rendered."""
    for call in subject.notes.calls:
        for key in call.task.verbatim:
            code = call.task.config[key]
            is_python = isinstance(code, str) and key in call.kind.python_keys
            comments = templates_between(code).comments if is_python else ()
            places = (found.start() for found in _IN_CODE.finditer(code if isinstance(code, str) else ""))
            # Comments of python may hold anything.
            outside = (at for at in places if not any(start <= at < end for start, end in comments))
            if (place := next(outside, None)) is not None:
                message, way = f"`{key}` is handed over as written", "hand the value over with input:"
                if key not in call.kind.verbatim:
                    message = f"{message}, because it comes with params"
                    way = "write :name and bind it in params:"
                yield Finding(
                    Code.TEMPLATE_IN_CODE,
                    call.paths[key],
                    f"{message}: the template in it is not rendered",
                    f"{way}, or set spec.render: true",
                    (code, place),
                )


def check_rendered_code(subject: Subject) -> Iterator[Finding]:
    """Python that is rendered because of what stands in it, and not because the task asks for
    it."""
    for call, key, code in _texts_to_render(subject):
        if key not in call.kind.python_keys or call.task.spec.get("render") is True:
            continue
        if between := templates_between(code).code:
            yield Finding(
                Code.TEMPLATE_IN_CODE,
                call.paths[key],
                f"a template stands in `{key}`, which is rendered: text from it becomes part of the code",
                "hand it over with input:",
                (code, between[0][0]),
            )


def check_interpolated_sql(subject: Subject) -> Iterator[Finding]:
    """A template in SQL where a value is meant; one for each statement."""
    for call, key, sql in _texts_to_render(subject):
        if key in call.kind.python_keys or key not in call.kind.verbatim_with_params or not is_template(sql):
            continue
        for start, expression in _expressions(sql):
            if _BEFORE_VALUE.search(sql, max(0, start - 60), start) and not _is_safe(expression):
                yield Finding(
                    Code.SQL_INTERPOLATION,
                    call.paths[key],
                    "a template stands where SQL means a value: text from it becomes part of the statement",
                    "write :name and params: {name: ...}",
                    within=(sql, start),
                )
                break


def _texts_to_render(subject: Subject) -> Iterator[tuple[CompiledCall, str, str]]:
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


_CHANGES: Final = re.compile(r"\b(update|delete|insert|merge|call)\b", re.IGNORECASE)
_ROUTINE: Final = re.compile(r"\b(?:from|select)\s+[\w.]+\s*\(", re.IGNORECASE)
_YIELDS: Final = re.compile(r"\breturning\b|(?:^|;)\s*(?:select|with|call)\b", re.IGNORECASE)
_LOCKS: Final = re.compile(r"\bfor\s+(?:no\s+key\s+)?update\b", re.IGNORECASE)


def check_keys_beside_claims(subject: Subject) -> Iterator[Finding]:
    """A statement that stands at a cursor, not under its `claim`."""
    for call in subject.notes.calls:
        for key in subject.raw(call.path).keys() & {*call.kind.verbatim_with_params} if call.claims else ():
            yield Finding(
                Code.MISPLACED,
                (*call.path, key),
                f"`{key}` stands at a cursor",
                "write it under claim:",
                at_key=True,
            )


def check_claims(subject: Subject) -> Iterator[Finding]:
    """A claim that marks no rows as taken, or returns none."""
    for call in subject.notes.calls:
        claim = call.task.config.get("command")
        if call.claims and not is_template(claim) and (bare := NO_CODE.sub(" ", str(claim)).strip()):
            if not (_CHANGES.search(_LOCKS.sub(" ", bare)) or _ROUTINE.search(bare)):
                yield Finding(
                    Code.CLAIM,
                    call.paths["command"],
                    "the claim changes nothing: it yields the same rows for ever",
                    "write UPDATE ... WHERE id IN (SELECT ... LIMIT :max_rows) RETURNING *",
                )
            elif not _YIELDS.search(bare):
                yield Finding(
                    Code.CLAIM, call.paths["command"], "the claim returns no rows", "end it with RETURNING *"
                )
