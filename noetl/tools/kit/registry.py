"""All tool kinds behind one port: finds the kind, checks its configuration, measures, and never raises."""

from __future__ import annotations

import importlib.metadata
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from pydantic import ValidationError

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean, nearest
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call, Suspension
from noetl.tools.kit.base import Services, Tool, ToolConfig
from noetl.tools.kit.faults import faults, known_keys, unknown_keys, validated
from noetl.tools.kit.opening import Opening, opening
from noetl.tools.kit.results import ResultRefused, checked

GROUP = "noetl.tools"

#: What every kind must say of itself (see `Tool`).
NEEDED = ("kind", "queue", "description", "config_model")

#: The directory of this package: what stands in it is no plug-in.
_OURS = str(Path(__file__).parents[2])


@cache
def entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """The installed kinds by name, not loaded yet. NoETL's own win over others of the same name."""
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.name not in found or point.value.startswith("noetl."):
            found[point.name] = point
    return found


def is_built_in(kind: str) -> bool:
    """Whether an installed kind is NoETL's own."""
    return entry_points()[kind].value.startswith("noetl.")


def origin(kind: str) -> str:
    """Where an installed kind comes from: `built in`, or the name and version of its distribution."""
    if is_built_in(kind):
        return "built in"
    distribution = entry_points()[kind].dist
    return "unknown" if distribution is None else f"{distribution.name} {distribution.version}"


def load(kind: str) -> type[Tool]:
    """The class of a kind. Raises ToolError where there is none, or where it cannot be imported."""
    point = entry_points().get(kind)
    if point is None:
        raise ToolError("client_error", f"There is no tool of kind '{kind}'{_meant(kind, entry_points())}")
    try:
        loaded = point.load()
    # Broad on purpose: an import runs foreign code, and one broken tool must not take the others along.
    except Exception as error:
        raise ToolError(
            "internal",
            f"Tool kind '{kind}' cannot be loaded from {point.value}: {type(error).__name__}: {error}{_place(error)}.",
            type=type(error).__name__,
            traceback=traceback.format_exc(),
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Tool)):
        raise ToolError("internal", f"Tool kind '{kind}': {point.value} is not a subclass of Tool.")
    if lacking := [name for name in NEEDED if not hasattr(loaded, name)]:
        where = sys.modules[loaded.__module__].__file__
        raise ToolError(
            "internal", f"Tool kind '{kind}': {point.value} does not say its {', '.join(lacking)} ({where})."
        )
    return loaded


def broken() -> list[str]:
    """Why installed kinds cannot be loaded, a sentence for each. Loads all of them."""
    found = []
    for kind in sorted(entry_points()):
        try:
            load(kind)
        except ToolError as error:
            found.append(error.message)
    return found


class Kinds(Mapping[str, KindInfo]):
    """What the compiler needs to know of every installed kind, by name. Each is loaded when it is looked at first:
    most playbooks use two or three."""

    def __getitem__(self, kind: str) -> KindInfo:
        if kind not in entry_points():
            raise KeyError(kind)
        return _info(kind)

    def __contains__(self, kind: object) -> bool:
        return kind in entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(entry_points()))

    def __len__(self) -> int:
        return len(entry_points())


_kinds = Kinds()


def kinds() -> Mapping[str, KindInfo]:
    """All installed kinds. A broken one is known by name only."""
    return _kinds


@cache
def _info(kind: str) -> KindInfo:
    try:
        tool = load(kind)
    except ToolError as error:
        return KindInfo(kind=kind, queue=kind, description=error.message)
    return replace(tool.info(), faults=partial(faults, tool))


def touches(kind: str, config: Mapping[str, Json]) -> tuple[str, ...]:
    """What a call with `config` reaches outside of NoETL, as its kind tells it (see `Tool.touches`)."""
    try:
        return load(kind).touches(config)
    # Broad on purpose: this may be foreign code, and a plan is made of all the other tasks as well.
    except Exception as error:  # noqa: BLE001
        return (f"something that the {kind} tool cannot tell ({type(error).__name__})",)


class Registry:
    """A `ToolPort` over the installed kinds. Tools are made when first called; thread-safe."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._tools: dict[str, Tool] = {}
        #: Calls that run with secrets in them, by the id of the call as it came.
        self._opened: dict[int, Call] = {}
        self._lock = threading.Lock()

    def kinds(self) -> Mapping[str, KindInfo]:
        """See `kinds`."""
        return kinds()

    def run(self, call: Call) -> Outcome | Suspension:
        """Runs a call. Whatever happens is an outcome (`meta.duration_ms` is how long it took) or a wait."""
        started = time.perf_counter()
        outcome = self._outcome(call)
        if not isinstance(outcome, Outcome):
            return outcome
        elapsed = round((time.perf_counter() - started) * 1000, 3)
        return replace(outcome, meta={"duration_ms": elapsed, **outcome.meta})

    def _outcome(self, call: Call) -> Outcome | Suspension:
        with opening(call, self.services.safe) as secrets:
            return secrets.hidden(self._tried(call, secrets))

    def _tried(self, call: Call, secrets: Opening) -> Outcome | Suspension:
        try:
            tool = self._tool(call.kind)
            outcome = self._ran(tool, call, secrets)
            if not isinstance(outcome, Outcome):
                return outcome
            return self._checked(tool, _warned(outcome, tool, unknown_keys(tool, call.config)))
        except ToolError as error:
            return _failed(error)
        # Broad on purpose: this is the boundary between the engine and tools, whose defects are
        # reported as failures of their task and must never end the worker's pipeline halfway.
        except Exception as error:  # noqa: BLE001
            return failed(
                ErrorInfo(
                    "internal",
                    f"The {call.kind} tool failed with {type(error).__name__}: {error}{_place(error)}",
                    type=type(error).__name__,
                    traceback=traceback.format_exc(),
                )
            )

    def _ran(self, tool: Tool, call: Call, secrets: Opening) -> Outcome | Suspension:
        opened = call if tool.hands_on else secrets.opened(call)
        if opened is call:
            return tool.run(call, configured(tool, call.config))
        self._opened[id(call)] = opened
        try:
            return tool.run(opened, configured(tool, opened.config))
        finally:
            del self._opened[id(call)]

    def _tool(self, kind: str) -> Tool:
        tool = self._tools.get(kind)
        if tool is None:
            with self._lock:
                if kind not in self._tools:
                    self._tools[kind] = load(kind)(self.services)
                tool = self._tools[kind]
        return tool

    def _checked(self, tool: Tool, outcome: Outcome) -> Outcome:
        if not outcome.ok:
            return outcome
        try:
            return replace(outcome, result=checked(outcome.result, self.services.result_limit))
        except ResultRefused as error:
            kind = "limit" if error.too_large else tool.error_kind
            return failed(
                ErrorInfo(kind, error.message, type="ResultRefused"), outcome.meta, **outcome.extras
            )

    def interrupt(self, call: Call) -> None:
        """Ends a call that runs here; it fails as `cancelled`. Tools that cannot be stopped run on."""
        tool = self._tools.get(call.kind)
        if tool is not None:
            tool.interrupt(self._opened.get(id(call), call))

    def close(self) -> None:
        """Gives back what the tools hold."""
        with self._lock:
            tools, self._tools = list(self._tools.values()), {}
        for tool in tools:
            tool.close()


def _place(error: BaseException) -> str:
    """Where a defect is, as ` (file.py:12)`: the innermost line that is neither ours nor the importing itself."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [one for one in frames if not one.filename.startswith((_OURS, "<frozen"))]
    near = (foreign or frames)[-1:]
    return "".join(f" ({one.filename}:{one.lineno})" for one in near)


def _failed(error: ToolError) -> Outcome:
    extras = dict(error.extras)
    info = ErrorInfo(
        error.kind,
        error.message,
        type=error.type,
        retryable=error.retryable,
        line=error.line,
        traceback=error.traceback,
        # At the top of the envelope `status` is ok or error; the tool's belongs to its error.
        status=extras.pop("status", None),
    )
    return replace(failed(info, **extras), result=error.result)


def _warned(outcome: Outcome, tool: Tool, unknown: list[str]) -> Outcome:
    if not unknown:
        return outcome
    fields = tool.config_model.model_fields
    notes = [f"The key '{key}' means nothing to the {tool.kind} tool{_meant(key, fields)}" for key in unknown]
    return replace(outcome, meta={**outcome.meta, "warnings": [*outcome.meta.get("warnings", ()), *notes]})


def configured(tool: Tool | type[Tool], config: Mapping[str, Json]) -> ToolConfig:
    """The configuration as the tool's own class, without keys that mean nothing to it. Raises ToolError with one sentence naming the field."""
    for group in tool.required:
        if all(config.get(key) in (None, "", [], {}) for key in group):
            names = " or ".join(f"'{key}'" for key in group)
            raise ToolError("client_error", f"The {tool.kind} task needs {names}, which is missing or empty.")
    try:
        return validated(tool, config)
    except ValidationError as error:
        raise ToolError("client_error", _explained(tool, error, config), type="ValidationError") from None


def _explained(tool: Tool | type[Tool], error: ValidationError, config: Mapping[str, Json]) -> str:
    # Of the value itself only its type is told: it may be a secret.
    fault = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(_path(fault["loc"], config))
    if fault["type"] == "missing":
        where = ".".join(filter(None, (where, str(fault["loc"][-1]))))
    if fault["type"] == "extra_forbidden":
        # Of a mapping inside of the configuration; at its top they are only warned of.
        key, known = str(fault["loc"][-1]), known_keys(tool.config_model, fault["loc"][:-1])
        return f"The {tool.kind} task has no key '{where}'.{did_you_mean(key, known)}"
    if fault["type"] == "missing":
        return f"The {tool.kind} task needs '{where}', which is missing."
    reason = fault["msg"].removeprefix("Value error, ")
    if not where:
        return f"The {tool.kind} task cannot be run: {reason}."
    return f"'{where}' of the {tool.kind} task is not usable: {reason} (it is of type {type(fault['input']).__name__})."


def _path(loc: tuple[int | str, ...], value: Json) -> Iterator[str]:
    """`loc` without what names no part of `value`: pydantic puts the branches of unions in."""
    for part in loc:
        inside = (isinstance(value, Mapping) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        )
        if inside:
            yield str(part)
            value = value[part]


def _meant(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: what was probably meant, or what there is."""
    names = sorted(known)
    if near := nearest(word, names):
        return f"; did you mean '{near}'?"
    return f"; there are {', '.join(names)}." if names else "."
