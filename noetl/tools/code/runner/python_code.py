"""Runs a python call: the code as a module, its inputs as globals, its result as JSON."""

from __future__ import annotations

import ast
import builtins
import contextlib
import difflib
import errno
import importlib
import inspect
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any

from ....facts import json
from ...kit import plain
from . import distributions, frames, responses, returns
from .requests import CodeError, PythonRequest

#: The module that the code is.
MODULE = "__noetl__"
#: Codes that a child keeps compiled.
CACHED = 64
#: Longest traceback and message that are reported, in characters.
LONGEST_TRACEBACK = 16_000
LONGEST_MESSAGE = 4_000
#: What to do about a result that is too large.
_ELSEWHERE = (
    "return rows as a frame (pandas, polars, Arrow), write to a file, or move rows with `kind: transfer`"
)

#: Source and name → its code, and whether that is a function's (see `returns`).
_compiled: dict[tuple[str, str], tuple[types.CodeType, bool]] = {}
_MISSING = object()


def run(request: Mapping[str, Any], folder: str) -> tuple[bytes, bool]:
    """The answer (`"value": ...` or `"error": {...}` as JSON text) and whether it went well.

    Tables of the result are files in `folder`; the answer's `"tables"` says how many there are of
    what size, and by which mark the value names them."""
    tables = frames.FrameFiles(folder)
    module = types.ModuleType(MODULE)
    # Registered while it runs: dataclasses, pickle and type hints look their module up by name.
    sys.modules[MODULE] = module
    try:
        value = _call(module.__dict__, request)
        text = _encode(value, request["result_limit"], tables.convert if request["tables"] else None)
        written = {"mark": tables.mark, "sizes": tables.sizes}
        return (
            b'"tables":%s,' % json.dumps(written).encode() if tables.sizes else b""
        ) + b'"value":' + text, True
    except BaseException as error:  # noqa: BLE001 - user code may raise anything; all of it is reported
        if isinstance(error, MemoryError):
            # The report needs memory too.
            module.__dict__.clear()
            traceback.clear_frames(error.__traceback__)
        return b'"error":' + _report(error, request), False
    finally:
        sys.modules.pop(MODULE, None)
        module.__dict__.clear()


def rehearse() -> None:
    """Runs a little code. A forked process copies each page when it first writes to it; done before
    the first call, that is not part of its time."""
    run(PythonRequest("result = [a]", {"a": 1}).message(lambda path: path), "")


def _encode(value: Any, limit: int, hook: plain.Convert | None) -> bytes:
    try:
        text = plain.dumps(value, hook=hook)
    except plain.NotJson as error:
        raise CodeError(str(error), "NotJson") from None
    if len(text) > limit:
        raise CodeError(
            f"The result is {len(text):,} bytes of JSON, and {limit:,} are allowed; {_ELSEWHERE}.",
            "LimitExceeded",
        )
    return text


def _call(names: dict[str, Any], request: Mapping[str, Any]) -> Any:
    code, is_function = _code(request["code"], request["name"])
    inputs = _read_inputs(request)
    if request["cwd"] is not None:
        # One that is not there, or that a sandbox does not show, is not started in: code starts in
        # scratch.
        with contextlib.suppress(OSError):
            os.chdir(request["cwd"])
    names["__builtins__"] = builtins
    if request["file"] is not None:
        names["__file__"] = request["file"]
    names.update(input_data=inputs, args=inputs)
    if request["context"] is not None:
        names["context"] = request["context"]
    _import_libs(request["libs"], names)
    names.update(inputs)
    has_bodies = responses.add_bodies([inputs, request["context"]])
    value = _value(code, is_function, names, inputs)
    if has_bodies:
        responses.remove_bodies(value)
    return value


def _value(code: types.CodeType, is_function: bool, names: dict[str, Any], inputs: Mapping[str, Any]) -> Any:
    if is_function:
        returned = types.FunctionType(code, names)()
        if not (isinstance(returned, str) and returned == returns.FELL_THROUGH):
            return _await(returned)
    else:
        exec(code, names)  # noqa: S102 - running the playbook's code is what this process is for
    return _await(_result_of(names, inputs))


def _read_inputs(request: Mapping[str, Any]) -> dict[str, Any]:
    """All inputs by name: those that came as files read, and tables as frames where the task asks
    for them."""
    inputs: dict[str, Any] = request["inputs"]
    sort, read = request["frames"], set()
    for name, (path, form) in request["files"].items():
        if form == "parquet":
            inputs[name] = frames.read_frame(name, path, sort)
            read.add(name)
        else:
            with open(path, "rb") as file:
                inputs[name] = json.loads(file.read())
    if sort is not None:
        for name in inputs.keys() - read:
            inputs[name] = frames.to_frame(name, inputs[name], sort)
    return inputs


def _result_of(names: dict[str, Any], inputs: Mapping[str, Any]) -> Any:
    """The global `result`, else what `main` returns. An input called `result` gives way to
    `main`."""
    result = names.get("result", _MISSING)
    main = names.get("main")
    given = "result" in inputs and result is inputs["result"]
    if callable(main) and "main" not in inputs and (result is _MISSING or given):
        return _call_main(main, names, inputs)
    return None if result is _MISSING else result


def _await(value: Any) -> Any:
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
            if parameter.default is parameter.empty:
                known = ", ".join(sorted(inputs)) or "none"
                raise CodeError(
                    f"main() needs '{parameter.name}', which is not among the inputs of the task ({known}).",
                    "TypeError",
                )
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            keyword[parameter.name] = value
    return main(*positional, **keyword)


def _code(source: str, name: str) -> tuple[types.CodeType, bool]:
    """The compiled source, and whether it is a function's; kept for the next call of the same
    code."""
    cached = _compiled.get((source, name))
    if cached is None:
        if len(_compiled) >= CACHED:
            _compiled.clear()
        tree = ast.parse(source, name)
        try:
            cached = (compile(tree, name, "exec", dont_inherit=True), False)
        except SyntaxError as error:
            if error.msg != "'return' outside function":
                raise
            cached = (returns.as_function(tree, name), True)
        _compiled[source, name] = cached
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return cached


def _import_libs(libs: Mapping[str, str] | list[str] | None, names: dict[str, Any]) -> None:
    pairs = libs.items() if isinstance(libs, dict) else map(_alias_of, libs or ())
    for alias, path in pairs:
        if not alias and (modules := distributions.modules(path)) is not None:
            names.update(modules)
            continue
        found = _library(path)
        top = path.partition(".")[0]
        names[alias or top] = found if alias else sys.modules.get(top, found)


def _alias_of(entry: str) -> tuple[str, str]:
    """Alias (empty: none) and module of `module` or `module as alias`."""
    path, _, alias = entry.partition(" as ")
    return alias.strip(), path.strip()


def _library(path: str) -> Any:
    """The module `a.b`, or the attribute `b` of module `a`."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        module, _, attribute = path.rpartition(".")
        holder = sys.modules.get(module) if module and error.name == path else None
        if holder is None:
            top = str(error.name).partition(".")[0]
            raise CodeError(
                f"'{path}' of libs is not installed where this task runs (no module named '{error.name}'): "
                f"install it for {sys.executable} with `pip install {top}`, or the package that holds it.",
                "ModuleNotFoundError",
            ) from None
        if not hasattr(holder, attribute):
            near = difflib.get_close_matches(attribute, dir(holder), 1)
            meant = f"; did you mean '{module}.{near[0]}'?" if near else "."
            message = f"'{path}' of libs does not exist: {module} has no '{attribute}'{meant}"
            raise CodeError(message, "ImportError") from None
        return getattr(holder, attribute)


# --- reports -----------------------------------------------------------------------------------


def _report(error: BaseException, request: Mapping[str, Any]) -> bytes:
    report = {"type": _type(error), "message": _message(error), "kind": _kind(error)}
    report |= _place(error, request["name"])
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


def _place(error: BaseException, name: str) -> dict[str, Any]:
    """The line in the code, and the frames that are the code's own."""
    if isinstance(error, SyntaxError) and error.filename == name:
        shown = "".join(traceback.format_exception_only(error))
        return {"line": error.lineno, "traceback": shown[:LONGEST_TRACEBACK]}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    if not frames:
        return {}
    shown = "".join(traceback.StackSummary.from_list(frames).format())
    last = f"{_type(error)}: {_message(error)}"
    text = f"Traceback (most recent call last):\n{shown}{last}"
    if len(text) > LONGEST_TRACEBACK:
        text = text[: LONGEST_TRACEBACK // 2] + "\n...\n" + text[-LONGEST_TRACEBACK // 2 :]
    return {"line": frames[-1].lineno, "traceback": text}
