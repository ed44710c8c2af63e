"""Checks of what code says, in the playbook and in files: names that nothing defines, SQL that cannot be parsed."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.checks.code_names import undefined_names
from noetl.dsl.compile.context import CodeUse, Context, is_template
from noetl.dsl.compile.demands import inputs_around
from noetl.dsl.compile.python_syntax import Fault, parsed
from noetl.dsl.problems import Code, Path, shown
from noetl.errors import NoetlError
from noetl.net.model import EACH_INPUTS, KindInfo, Net, Task, Template

#: What the runner gives to every code besides its inputs.
_GIVEN = frozenset({"args", "input_data", "context"})
#: What tasks are given that run after each call of another one.


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


def check_names_of_code(context: Context, net: Net) -> None:
    """Warns of each name in python code that neither the code nor its inputs nor its libraries define."""
    for use in context.codes:
        tree = parsed(use.code)
        if isinstance(tree, Fault):
            continue
        given = {*_GIVEN, *use.given, *inputs_around(net, use.step)}
        for one in undefined_names(tree, given):
            at = sum(len(line) + 1 for line in use.code.split("\n")[: one.line - 1])
            column = len(use.code.split("\n")[one.line - 1].encode()[: one.column].decode("utf-8", "replace"))
            message = f"python: nothing defines {shown(one.name)}"
            hint = context.report.suggest(
                one.name, sorted(given), f"hand it over with input: {{{one.name}: ...}}"
            )
            if use.file:
                message = f"python: {use.file}:{one.line}: nothing defines {shown(one.name)}"
                context.report.add(Code.UNDEFINED_IN_CODE, use.path, message, hint)
            else:
                within = (use.code, at + column)
                context.report.add(Code.UNDEFINED_IN_CODE, use.path, message, hint, within=within)


def check_sql_syntax(
    context: Context, kind: KindInfo, value: Template, path: Path, params: Template, file: str = ""
) -> None:
    """Warns of SQL without templates that its database could not parse. Loads the parser of the kind."""
    if not context.parse_sql:
        return
    texts = (
        [(value, path)]
        if not isinstance(value, list)
        else [(one, (*path, at)) for at, one in enumerate(value)]
    )
    for text, place in texts:
        if not isinstance(text, str) or is_template(text) or not text.strip():
            continue
        fault = kind.parse(text, isinstance(params, Mapping))
        if fault is not None:
            offset, why = fault
            message = f"SQL: {f'{file}: ' if file else ''}{why}"
            hint = f"{kind.kind} would refuse it"
            within = None if file else (text, offset)
            context.report.add(Code.SQL_SYNTAX, place, message, hint, within=within)


def check_source_file(
    context: Context, kind: KindInfo, named: Template, path: Path, params: Template
) -> None:
    """Of a file that can be read: its syntax. What comes from elsewhere is not looked at."""
    name = _source_name(kind, named)
    if context.sources is None or name is None:
        return
    try:
        source = context.sources(name)
    except NoetlError as error:
        context.report.add(
            Code.FILE, path, error.message.rstrip("."), "name a file from the playbook's directory on"
        )
        return
    if not kind.python_keys:
        check_sql_syntax(context, kind, source, path, params, name)
        return
    tree = parsed(source)
    if isinstance(tree, Fault):
        message = f"python: {name}:{tree.line}: {tree.message}"
        context.report.add(Code.PYTHON, path, message, "the line is that of the script")


def note_code(
    context: Context,
    kind: KindInfo,
    config: Mapping[str, Template],
    task: Task,
    paths: Mapping[str, Path],
    step: str,
) -> None:
    """Remembers python code whose names are looked at when all that hands it inputs is known."""
    libs = names_of_libs(config.get("libs"))
    if libs is None or not step:
        return
    given = {*libs, *task.args, *task.handed}
    for path in paths.values():
        given |= {*EACH_INPUTS} if "each" in path else set()
    for key in kind.python_keys:
        code = config.get(key)
        if isinstance(code, str) and key in task.verbatim:
            context.codes.append(CodeUse(paths[key], step, code, frozenset(given)))
    for key in kind.source_files if kind.python_keys else ():
        name = _source_name(kind, config.get(key))
        source = _source(context, name)
        if source is not None:
            context.codes.append(CodeUse(paths[key], step, source, frozenset(given), name or ""))


def _source_name(kind: KindInfo, named: Template) -> str | None:
    """The file that a key of `source_files` names; None where it names none, or not yet."""
    # A text names a script of python; where it is SQL it is SQL.
    name: Template = named if kind.python_keys else None
    if isinstance(named, Mapping):
        name = named.get("file") or named.get("path")
    return name if isinstance(name, str) and not is_template(name) and "://" not in name else None


def _source(context: Context, name: str | None) -> str | None:
    """The text of a file that can be read."""
    if context.sources is None or name is None:
        return None
    try:
        return context.sources(name)
    except NoetlError:
        return None  # `check_code` says why
