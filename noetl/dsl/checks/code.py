"""Python and SQL that tasks are handed: their syntax, the names in them, and templates that stand
there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from noetl.dsl.checks.code_names import undefined_names
from noetl.dsl.checks.inputs import inputs_around
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.notes import CompiledCall
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Finding, Path, shown
from noetl.dsl.read.python_code import Fault, parsed
from noetl.errors import NoetlError
from noetl.net.model import EACH_INPUTS, KindInfo, Template

#: What the runner gives to every code besides its inputs.
_GIVEN: Final = frozenset({"args", "input_data", "context"})
#: Python names another line of the code.
_ON_LINE: Final = re.compile(r" on line (\d+)")


def check_python(subject: Subject) -> Iterator[Finding]:
    """Python code that cannot be parsed, in the playbook."""
    for call in subject.notes.calls:
        for key, code in _texts(call):
            tree = parsed(code) if key in call.kind.python_keys and key in call.task.verbatim else None
            if isinstance(tree, Fault):
                path, before = call.paths[key], code.split("\n")[: tree.line - 1]
                # What is missing at the end is missing behind the last word.
                end = max(len(code.rstrip()) - 1, 0)
                place = min(sum(len(one) + 1 for one in before) + tree.column - 1, end)
                message = f"python: {_with_lines(subject, code, path, tree.message)}"
                hint = "the line is that of the playbook"
                yield Finding(Code.PYTHON, path, message, hint, within=(code, place))


def _with_lines(subject: Subject, code: str, path: Path, message: str) -> str:
    """`message` with the lines of the playbook in which those of `code` stand."""

    def line(found: re.Match[str]) -> str:
        before = sum(len(one) + 1 for one in code.split("\n")[: int(found[1]) - 1])
        place = subject.source.position(path, code, before)
        return f" on line {found[1] if place is None else place[0]}"

    return _ON_LINE.sub(line, message)


def _texts(call: CompiledCall) -> Iterator[tuple[str, str]]:
    for key, value in call.task.config.items():
        if isinstance(value, str):
            yield key, value


def check_files(subject: Subject) -> Iterator[Finding]:
    """Files that tasks name: whether they are there, and the syntax of python in them."""
    for call, key, name in _files(subject):
        text = _text_of(subject, name)
        if isinstance(text, NoetlError):
            hint = "name a file from the playbook's directory on"
            yield Finding(Code.FILE, call.paths[key], text.message.rstrip("."), hint)
        elif call.kind.python_keys and isinstance(tree := parsed(text), Fault):
            message = f"python: {name}:{tree.line}: {tree.message}"
            yield Finding(Code.PYTHON, call.paths[key], message, "the line is that of the script")


def _files(subject: Subject) -> Iterator[tuple[CompiledCall, str, str]]:
    """The files that tasks name, each with the key that names it; none where they are not read."""
    for call in subject.notes.calls if subject.files is not None else ():
        for key in call.kind.source_files:
            name = _source_name(call.kind, call.task.config.get(key))
            if name is not None:
                yield call, key, name


def _source_name(kind: KindInfo, named: Template) -> str | None:
    """The file that a key of `source_files` names; None where it names none, or not yet."""
    # A text names a script of python; where it is SQL it is SQL.
    name: Template = named if kind.python_keys else None
    if isinstance(named, Mapping):
        name = named.get("file") or named.get("path")
    return name if isinstance(name, str) and not is_template(name) and "://" not in name else None


def _text_of(subject: Subject, name: str) -> str | NoetlError:
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
        for key in call.kind.verbatim_with_params:
            if key in call.task.config:
                for text, path in _statements(call.task.config[key], call.paths[key]):
                    yield from _sql_fault(call, text, path)
    for call, key, name in _files(subject):
        text = _text_of(subject, name)
        if not call.kind.python_keys and isinstance(text, str):
            yield from _sql_fault(call, text, call.paths[key], name)


def _statements(value: Template, path: Path) -> Iterator[tuple[Template, Path]]:
    if isinstance(value, list):
        yield from ((one, (*path, at)) for at, one in enumerate(value))
    else:
        yield value, path


def _sql_fault(call: CompiledCall, text: Template, path: Path, file: str = "") -> Iterator[Finding]:
    if not isinstance(text, str) or is_template(text) or not text.strip():
        return
    fault = call.kind.parse(text, isinstance(call.task.config.get("params"), Mapping))
    if fault is not None:
        offset, why = fault
        message = f"SQL: {f'{file}: ' if file else ''}{why}"
        within = None if file else (text, offset)
        yield Finding(Code.SQL_SYNTAX, path, message, f"{call.kind.kind} would refuse it", within)


@dataclass(frozen=True, slots=True)
class _Code:
    """Python code of a task, or of the script `file`; `given` are the names that the task itself
    gives it."""

    step: str
    path: Path
    text: str
    given: frozenset[str]
    file: str = ""


def check_names_of_code(subject: Subject) -> Iterator[Finding]:
    """Names in python code that neither the code nor its inputs nor its libraries define."""
    net = subject.net
    if net is None or not subject.notes.is_whole:
        return
    around = inputs_around(net)
    for code in _codes(subject):
        tree = parsed(code.text)
        given = {*_GIVEN, *code.given, *around[code.step]}
        for one in undefined_names(tree, given) if not isinstance(tree, Fault) else ():
            message = f"python: nothing defines {shown(one.name)}"
            otherwise = f"hand it over with input: {{{one.name}: ...}}"
            hint = subject.names.suggest(one.name, sorted(given), otherwise)
            if code.file:
                message = f"python: {code.file}:{one.line}: nothing defines {shown(one.name)}"
                yield Finding(Code.UNDEFINED_IN_CODE, code.path, message, hint)
            else:
                lines = code.text.split("\n")
                at = sum(len(line) + 1 for line in lines[: one.line - 1])
                column = len(lines[one.line - 1].encode()[: one.column].decode("utf-8", "replace"))
                within = (code.text, at + column)
                yield Finding(Code.UNDEFINED_IN_CODE, code.path, message, hint, within)


def _codes(subject: Subject) -> Iterator[_Code]:
    """The code of tasks whose inputs are known, which those of repeated calls are not."""
    for call in subject.notes.calls:
        task, kind = call.task, call.kind
        libs = names_of_libs(task.config.get("libs"))
        if libs is None or not call.step or any(subject.raw(part).get("repeat") for part in call.parts):
            continue
        given = {*libs, *task.args, *task.handed}
        given |= {*EACH_INPUTS} if any("each" in path for path in call.paths.values()) else set()
        for key in kind.python_keys:
            text = task.config.get(key)
            if isinstance(text, str) and key in task.verbatim:
                yield _Code(call.step, call.paths[key], text, frozenset(given))
        for key in kind.source_files if kind.python_keys and subject.files is not None else ():
            name = _source_name(kind, task.config.get(key))
            text = _text_of(subject, name) if name is not None else None
            if name is not None and isinstance(text, str):
                yield _Code(call.step, call.paths[key], text, frozenset(given), name)


def names_of_libs(libs: Template) -> frozenset[str] | None:
    """The names that `libs` binds; None where that is known only when the task runs."""
    if isinstance(libs, Mapping):
        return frozenset(libs)
    if not isinstance(libs, list | None):
        return None
    found = set[str]()
    for one in libs or ():
        path, _, alias = str(one).partition(" as ")
        parts = path.strip().split(".")
        if not all(map(str.isidentifier, parts)):
            return None  # a distribution, whose modules are those that are installed
        found.add(alias.strip() or parts[0])
    return frozenset(found)
