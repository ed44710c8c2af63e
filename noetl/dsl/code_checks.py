"""Checks of what code says: names in python that nothing defines, and SQL that cannot be parsed."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.code_names import undefined_names
from noetl.dsl.context import Context, is_template
from noetl.dsl.demands import inputs_around
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.python_syntax import Fault, parsed
from noetl.net.model import KindInfo, Net, Template

#: What the runner gives to every code besides its inputs.
_GIVEN = frozenset({"args", "input_data", "context"})


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
        given = {*_GIVEN, *use.given, *inputs_around(net, use.step), *({"__file__"} if use.file else ())}
        for one in undefined_names(use.code, tree, given):
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
    if context.sources is None:
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
