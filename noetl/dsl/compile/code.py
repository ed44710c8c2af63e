"""Which keys of a task are passed to its tool as written, and which names python code may read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from noetl.dsl.read.python_code import Fault, parse_python, templates_between
from noetl.facts.json import JsonMap
from noetl.net.model import KindInfo, Template

_CONTEXT = re.compile(r"\bcontext\b")
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


#: How bash counts, outside of what is an expression or is kept as written already.
_COUNTING: Final = re.compile(
    r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}|\{\{.*?\}\}|\{%.*?%\}|\$\{#", re.DOTALL
)
_KEPT: Final = "${% raw %}{#{% endraw %}"


def keep_counting(value: Template) -> Template:
    """A command line, or a list of them, in which `${#` begins no comment of a template."""
    match value:
        case str():
            return _COUNTING.sub(lambda part: _KEPT if part[0] == "${#" else part[0], value)
        case list():
            return [keep_counting(one) if isinstance(one, str) else one for one in value]
    return value


def verbatim_keys(kind: KindInfo, config: Mapping[str, Template], spec: JsonMap) -> tuple[str, ...]:
    """The keys of `config` that are not rendered: code, and SQL that comes with `params`; none
    where `spec.render` is true."""
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
    """Whether a template stands where python could never have it: the code is meant to be
    rendered."""
    return (
        key in kind.python_keys
        and spec.get("render") is not False
        and isinstance(value, str)
        and bool(templates_between(value).code)
    )


def wants_context(kind: KindInfo, config: Mapping[str, Template], spec: JsonMap) -> bool:
    """Whether a task depends on every name there is: its python code has the word `context`, or the
    tool itself renders a text that it reads."""
    codes = (config.get(key) for key in kind.python_keys)
    files = (config.get(key) for key in kind.source_files)
    renders = spec.get("render") is True and any(isinstance(file, Mapping) for file in files)
    return renders or any(isinstance(code, str) and bool(_CONTEXT.search(code)) for code in codes)


def names_read(
    kind: KindInfo, config: Mapping[str, Template], verbatim: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The names that python code of the task may read; None where that is not known: then it is
    all of them."""
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
    tree = parse_python(code)
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
    """What a node names besides variables: attributes, modules, and other things that are called
    `main`."""
    match node:
        case ast.Attribute():
            yield node.attr
        case ast.Import() | ast.ImportFrom():
            yield from (alias.name for alias in node.names)
            yield from (_OTHER_MAIN for alias in node.names if "main" in (alias.asname, alias.name))
            yield getattr(node, "module", None) or ""
        case ast.ClassDef(name="main") | ast.Name(id="main", ctx=ast.Store()):
            yield _OTHER_MAIN
