"""Runs a python call: the code as a module of its own, its inputs as globals, its result as JSON."""

from __future__ import annotations

import ast
import builtins
import errno
import importlib
import inspect
import json
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any

from . import plain, returns

#: How the code is called in tracebacks, and the module that it is.
FILE = "<code>"
MODULE = "__noetl__"
#: Codes that a child keeps compiled.
CACHED = 64
#: Longest traceback and message that are reported, in characters.
LONGEST_TRACEBACK = 16_000
LONGEST_MESSAGE = 4_000

#: Source → its code, and whether that is a function's (see `returns`).
_compiled: dict[str, tuple[types.CodeType, bool]] = {}
_MISSING = object()


class CodeError(Exception):
    """The call cannot go on, and says why itself. `type` is what the report calls it."""

    def __init__(self, message: str, type: str) -> None:
        super().__init__(message)
        self.type = type


def run(request: Mapping[str, Any]) -> tuple[bytes, bool]:
    """The answer (`"value": ...` or `"error": {...}` as JSON text) and whether it went well."""
    source = request["code"]
    module = types.ModuleType(MODULE)
    # Registered while it runs: dataclasses, pickle and type hints look their module up by name.
    sys.modules[MODULE] = module
    try:
        value = _call(source, module.__dict__, request)
        return b'"value":' + _encoded(value, request["result_limit"]), True
    except BaseException as error:  # noqa: BLE001 - user code may raise anything; all of it is reported
        if isinstance(error, MemoryError):
            # The report needs memory too.
            module.__dict__.clear()
            traceback.clear_frames(error.__traceback__)
        return b'"error":' + _reported(error, request), False
    finally:
        sys.modules.pop(MODULE, None)
        module.__dict__.clear()


def rehearse() -> None:
    """Runs a little code. A forked process copies each page when it first writes to it; done before the
    first call, that is not part of its time."""
    run({"code": "result = [a]", "inputs": {"a": 1}, "context": None, "libs": [], "result_limit": 100})


def _encoded(value: Any, limit: int) -> bytes:
    try:
        text = plain.dumps(value)
    except plain.NotJson as error:
        raise CodeError(str(error), "NotJson") from None
    if len(text) > limit:
        raise CodeError(
            f"The result is {len(text):,} bytes of JSON, and {limit:,} are allowed; return less.",
            "LimitExceeded",
        )
    return text


def _call(source: str, names: dict[str, Any], request: Mapping[str, Any]) -> Any:
    code, is_function = _code(source)
    inputs: dict[str, Any] = request["inputs"]
    names["__builtins__"] = builtins
    names.update(input_data=inputs, args=inputs)
    if request["context"] is not None:
        names["context"] = request["context"]
    _import_libs(request["libs"], names)
    names.update(inputs)
    if is_function:
        returned = types.FunctionType(code, names)()
        if not (isinstance(returned, str) and returned == returns.FELL_THROUGH):
            return _awaited(returned)
    else:
        exec(code, names)  # noqa: S102 - running the playbook's code is what this process is for
    return _awaited(_yielded(names, inputs))


def _yielded(names: dict[str, Any], inputs: Mapping[str, Any]) -> Any:
    """The global `result`, else what `main` returns. An input called `result` gives way to `main`."""
    result = names.get("result", _MISSING)
    main = names.get("main")
    given = "result" in inputs and result is inputs["result"]
    if callable(main) and "main" not in inputs and (result is _MISSING or given):
        return _call_main(main, names, inputs)
    return None if result is _MISSING else result


def _awaited(value: Any) -> Any:
    if not inspect.iscoroutine(value):
        return value
    # Imported where it is needed: it costs 40 ms, and few codes are asynchronous.
    import asyncio

    return asyncio.run(value)


def _call_main(main: Callable[..., Any], names: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
    """Hands over the inputs that `main` names, or all of them where it takes `**kwargs`."""
    try:
        parameters = inspect.signature(main).parameters.values()
    except (TypeError, ValueError):
        return main()
    special = {name: names[name] for name in ("input_data", "args", "context") if name in names}
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            keyword |= {name: value for name, value in inputs.items() if name not in keyword}
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        value = inputs.get(parameter.name, special.get(parameter.name, _MISSING))
        if value is _MISSING:
            _refuse_missing(parameter, inputs)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            keyword[parameter.name] = value
    return main(*positional, **keyword)


def _refuse_missing(parameter: inspect.Parameter, inputs: Mapping[str, Any]) -> None:
    if parameter.default is parameter.empty:
        known = ", ".join(sorted(inputs)) or "none"
        raise CodeError(
            f"main() needs '{parameter.name}', which is not among the inputs of the task ({known}).",
            "TypeError",
        )


def _code(source: str) -> tuple[types.CodeType, bool]:
    """The compiled source, and whether it is a function's; kept for the next call of the same code."""
    cached = _compiled.get(source)
    if cached is None:
        if len(_compiled) >= CACHED:
            _compiled.clear()
        tree = ast.parse(source, FILE)
        if returns.has_top_level_return(tree.body):
            cached = (returns.as_function(tree, FILE), True)
        else:
            cached = (compile(tree, FILE, "exec", dont_inherit=True), False)
        _compiled[source] = cached
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    return cached


def _import_libs(libs: Mapping[str, str] | list[str] | None, names: dict[str, Any]) -> None:
    pairs = libs.items() if isinstance(libs, dict) else [(None, name) for name in libs or ()]
    for alias, path in pairs:
        found = _library(path)
        top = path.partition(".")[0]
        names[alias or top] = found if alias else sys.modules.get(top, found)


def _library(path: str) -> Any:
    """The module `a.b`, or the attribute `b` of module `a`."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        module, _, attribute = path.rpartition(".")
        if module and error.name == path and hasattr(sys.modules.get(module), attribute):
            return getattr(sys.modules[module], attribute)
        raise CodeError(
            f"'{path}' of libs is not installed where this task runs (no module named '{error.name}').",
            "ModuleNotFoundError",
        ) from None


# --- reports -----------------------------------------------------------------------------------


def _reported(error: BaseException, request: Mapping[str, Any]) -> bytes:
    report = {"type": _type(error), "message": _message(error), "kind": _kind(error)}
    report |= _place(error)
    if isinstance(error, MemoryError):
        report["message"] = (
            f"The code asked for more memory than its {request['memory_mb']} MB (spec.memory_mb)."
        )
    elif isinstance(error, OSError) and error.errno == errno.EFBIG:
        report["message"] = f"The code wrote a file larger than the {request['file_mb']} MB that are allowed."
    return json.dumps(report).encode()


def _type(error: BaseException) -> str:
    return error.type if isinstance(error, CodeError) else type(error).__name__


def _kind(error: BaseException) -> str:
    large = isinstance(error, CodeError) and error.type == "LimitExceeded"
    if large or isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.EFBIG):
        return "limit"
    return "python"


def _message(error: BaseException) -> str:
    match error:
        case SystemExit():
            return f"The code called exit({error.code!r}) before giving a result."
        case KeyboardInterrupt():
            return "The code raised KeyboardInterrupt."
        case SyntaxError():
            return str(error.msg)
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - `__str__` is user code as well
        text = f"(its message could not be read: {type(broken).__name__})"
    return (text or f"The code raised {type(error).__name__} without a message.")[:LONGEST_MESSAGE]


def _place(error: BaseException) -> dict[str, Any]:
    """The line in the code, and the frames that are the code's own."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        shown = "".join(traceback.format_exception_only(error))
        return {"line": error.lineno, "traceback": shown[:LONGEST_TRACEBACK]}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    if not frames:
        return {}
    shown = "".join(traceback.StackSummary.from_list(frames).format())
    last = f"{_type(error)}: {_message(error)}"
    text = f"Traceback (most recent call last):\n{shown}{last}"
    if len(text) > LONGEST_TRACEBACK:
        text = text[: LONGEST_TRACEBACK // 2] + "\n...\n" + text[-LONGEST_TRACEBACK // 2 :]
    return {"line": frames[-1].lineno, "traceback": text}
