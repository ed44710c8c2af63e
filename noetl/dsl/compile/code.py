"""Checks of what tools are handed as written: python, SQL, and the keys that must be there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from noetl.dsl.checks.code_checks import check_source_file, check_sql_syntax
from noetl.dsl.compile.code_templates import templates_between
from noetl.dsl.compile.context import Context
from noetl.dsl.compile.python_syntax import Fault, parsed
from noetl.dsl.document import Part, Step, Tool, known_keys
from noetl.dsl.document.keys import keys_near
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.json import JsonMap
from noetl.net.model import KindInfo, Template

#: Python names another line of the code.
_ON_LINE = re.compile(r" on line (\d+)")
_CONTEXT = re.compile(r"\bcontext\b")
# An expression or statement, not the doubled braces of a format string.
_IN_CODE = re.compile(r"\{\{\s*[A-Za-z_][\w.]*\s*(\||\}\}|\[)|\{%-?\s*(if|for|set)\b")
# What stands before a value in SQL.
_BEFORE_VALUE = re.compile(
    r"(=|<|>|'|\(|,|\b(like|ilike|in|values|then|between|and|limit|offset|select))\s*$", re.IGNORECASE
)
# Filters after which nothing of the value can end the literal that it stands in.
_NUMERIC = re.compile(r"\|\s*(int|float|length|count|round|abs)\s*(\([^()]*\)\s*)?$")
# The id of the execution is digits.
_ID = re.compile(r"^[-\s]*(execution_id|job\.(uuid|execution_id))\s*(\|\s*string\s*)?$")
# What the engine counts.
_COUNT = re.compile(r"^[-\s]*(__frame_max_rows|loop_index|iter\.index)\s*(\|\s*default\(\s*\d+\s*\)\s*)?$")
_QUOTES_DOUBLED = re.compile(r"replace\(\s*(\"'\"|'\\'')")

#: Keys of steps that are no tool's: written one indentation too far in.
_OF_STEPS: Final = frozenset(known_keys(Step)) - frozenset(known_keys(Tool)) - {"step", "tool"}
#: A `main` whose parameters are not in sight.
_OTHER_MAIN = "<main>"
#: Names, attributes and modules through which code may reach inputs that it does not name.
_REACHES_ALL = frozenset(
    {
        *("args", "input_data", "context", _OTHER_MAIN),
        *("globals", "locals", "vars", "dir", "eval", "exec", "compile", "*"),
        *("__main__", "__dict__", "__globals__", "modules", "_getframe", "currentframe", "stack"),
        *("f_globals", "f_locals", "f_back"),
    }
)


def as_written(kind: KindInfo, config: Mapping[str, Template], spec: JsonMap) -> tuple[str, ...]:
    """The keys of `config` that are not rendered: code, and SQL that comes with `params`; none where `spec.render` is
    true."""
    if spec.get("render") is True:
        return ()
    params = kind.verbatim_with_params if config.get("params") is not None else ()
    # Where a script is may be a template, whatever its text binds.
    with_params = [key for key in params if not isinstance(config.get(key), Mapping)]
    return tuple(
        key
        for key in dict.fromkeys((*kind.verbatim, *with_params))
        if key in config and not _is_rendered(kind, key, config[key], spec)
    )


def _is_rendered(kind: KindInfo, key: str, value: Template, spec: JsonMap) -> bool:
    """Whether a template stands where python could never have it: the code is meant to be rendered."""
    return (
        key in kind.python_keys
        and spec.get("render") is not False
        and isinstance(value, str)
        and bool(templates_between(value).code)
    )


def renders_script(kind: KindInfo, config: Mapping[str, Template], spec: JsonMap) -> bool:
    """Whether the tool itself renders a text that it reads, with the whole context."""
    return spec.get("render") is True and any(
        isinstance(config.get(key), Mapping) for key in kind.source_files
    )


def check_code(
    context: Context,
    kind: KindInfo,
    config: Mapping[str, Template],
    paths: Mapping[str, Path],
    verbatim: tuple[str, ...],
    spec: JsonMap,
    task: Path,
) -> None:
    """Adds the problems of a tool's configuration: required keys, python syntax, templates in code and SQL."""
    for group in kind.required:
        _check_required(context, kind, group, config, task)
    params = config.get("params")
    for key in kind.source_files:
        if key in config:
            check_source_file(context, kind, config[key], paths[key], params)
    for key, value in config.items():
        if key in kind.verbatim_with_params:
            check_sql_syntax(context, kind, value, paths[key], params)
        if isinstance(value, str):
            _check_text(context, kind, key, value, paths[key], verbatim, spec)


def _check_text(
    context: Context,
    kind: KindInfo,
    key: str,
    value: str,
    path: Path,
    verbatim: tuple[str, ...],
    spec: JsonMap,
) -> None:
    is_python = key in kind.python_keys
    if key in verbatim:
        if is_python:
            _check_python(context, value, path)
        _check_templates_in_code(context, kind, key, value, path)
    elif is_python:
        _check_rendered_code(context, key, value, path, spec)
    elif key in kind.verbatim_with_params:
        _check_sql(context, value, path)


def warn_unknown_config(
    context: Context, kind: KindInfo, paths: Mapping[str, Path], model: type[Part] = Tool
) -> None:
    """Adds the problems of keys that mean nothing to the kind. `model` is the part in which they stand."""
    if kind.schema.get("additionalProperties") is not False:
        return
    known = kind.schema.get("properties", {})
    for key, path in paths.items():
        if key not in known and key != "policy":
            hint = context.report.suggest(key, [*known, *known_keys(model)], _known_to(known))
            near = {*known, *keys_near(model)}
            if key in _OF_STEPS:
                hint, near = "put it beside tool:", set()
            message = f"the key {shown(key)} means nothing to {kind.kind}"
            add_unknown_key(context.report, path, message, hint, near, paths)


def _known_to(keys: Iterable[str]) -> str:
    names = ", ".join(keys)
    return f"known here: {names}" if names else "hand values over with input:"


def names_context(kind: KindInfo, config: Mapping[str, Template]) -> bool:
    """Whether python code of the task has the word `context`."""
    codes = (config.get(key) for key in kind.python_keys)
    return any(isinstance(code, str) and bool(_CONTEXT.search(code)) for code in codes)


def names_read(
    kind: KindInfo, config: Mapping[str, Template], verbatim: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The names that python code of the task may read; None where that cannot be told: then it is all of them."""
    keys = [key for key in kind.python_keys if key in config]
    if not keys or not all(key in verbatim for key in keys):
        return None
    found = {"result"}
    for key in keys:
        names = _names(str(config[key]))
        if names is None:
            return None
        found |= names
    return tuple(sorted(found))


def _names(code: str) -> set[str] | None:
    tree = parsed(code)
    if isinstance(tree, Fault):
        # `check_code` says what is wrong with it.
        return None
    names: set[str] = set()
    words: set[str] = set()
    mains: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                names.add(node.id)
                words.update(_words(node))
            case ast.arg():
                names.add(node.arg)
            case ast.FunctionDef(name="main") | ast.AsyncFunctionDef(name="main"):
                mains.append(node)
            case ast.Attribute() | ast.Import() | ast.ImportFrom() | ast.ClassDef():
                words.update(_words(node))
    if (names | words) & _REACHES_ALL or any(main.args.kwarg or main.decorator_list for main in mains):
        return None
    return names | ({"main"} if mains else set())


def _words(node: ast.AST) -> Iterator[str]:
    """What a node names besides variables: attributes, modules, and other things that are called `main`."""
    match node:
        case ast.Attribute():
            yield node.attr
        case ast.Import() | ast.ImportFrom():
            yield from (alias.name for alias in node.names)
            yield from (_OTHER_MAIN for alias in node.names if "main" in (alias.asname, alias.name))
            yield getattr(node, "module", None) or ""
        case ast.ClassDef(name="main") | ast.Name(id="main", ctx=ast.Store()):
            yield _OTHER_MAIN


def _check_required(
    context: Context, kind: KindInfo, group: tuple[str, ...], config: Mapping[str, Template], task: Path
) -> None:
    if any(config.get(key) not in (None, "", [], {}) for key in group):
        return
    first, *others = group
    or_else = f" (or {', '.join(others)})" if others else ""
    context.report.missing(task, first, f"{kind.kind} needs {first}{or_else}", f"add {first}:")


def _check_python(context: Context, code: str, path: Path) -> None:
    tree = parsed(code)
    if isinstance(tree, Fault):
        before = code.split("\n")[: tree.line - 1]
        # What is missing at the end is missing behind the last word.
        place = min(sum(len(one) + 1 for one in before) + tree.column - 1, max(len(code.rstrip()) - 1, 0))
        message = _ON_LINE.sub(
            lambda found: f" on line {_line(context, code, path, int(found[1]))}", tree.message
        )
        hint = "the line is that of the playbook"
        context.report.add(Code.PYTHON, path, f"python: {message}", hint, within=(code, place))


def _line(context: Context, code: str, path: Path, line: int) -> int:
    """The line of the playbook in which a line of `code` stands."""
    before = sum(len(one) + 1 for one in code.split("\n")[: line - 1])
    found = context.report.source.position(path, code, before)
    return line if found is None else found[0]


def _check_templates_in_code(context: Context, kind: KindInfo, key: str, code: str, path: Path) -> None:
    is_python = key in kind.python_keys
    comments = templates_between(code).comments if is_python else ()
    found = next((one for one in _IN_CODE.finditer(code) if not _is_within(one.start(), comments)), None)
    if found is None:
        return
    message, way = f"`{key}` is handed over as written", "hand the value over with input:"
    if key not in kind.verbatim:
        message, way = f"{message}, because it comes with params", "write :name and bind it in params:"
    message, hint = f"{message}: the template in it is not rendered", f"{way}, or set spec.render: true"
    context.report.add(Code.TEMPLATE_IN_CODE, path, message, hint, within=(code, found.start()))


def _is_within(place: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _check_rendered_code(context: Context, key: str, code: str, path: Path, spec: JsonMap) -> None:
    """Of code that is rendered because of what stands in it, and not because the task asks for it."""
    between = templates_between(code).code if spec.get("render") is not True else ()
    if between:
        context.report.add(
            Code.TEMPLATE_IN_CODE,
            path,
            f"a template stands in `{key}`, which is rendered: text from it becomes part of the code",
            "hand it over with input:",
            within=(code, between[0][0]),
        )


def _check_sql(context: Context, sql: str, path: Path) -> None:
    if not is_template(sql):
        return
    for start, expression in _expressions(sql):
        if _BEFORE_VALUE.search(sql, max(0, start - 60), start) and not _is_safe(expression):
            context.report.add(
                Code.SQL_INTERPOLATION,
                path,
                "a template stands where SQL means a value: text from it becomes part of the statement",
                "write :name and params: {name: ...}",
                within=(sql, start),
            )
            return


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
