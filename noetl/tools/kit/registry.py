"""All tool kinds behind one port: finds the kind, checks its configuration, measures, and never
raises."""

from __future__ import annotations

import importlib.metadata
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.nearest import nearest
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call, Suspension
from noetl.tools.kit import plain
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.call_secrets import CallSecrets, open_secrets
from noetl.tools.kit.declaration import ToolDeclaration, configure, lacking, unknown_keys

GROUP = "noetl.tools"

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
    """Where an installed kind comes from: `built in`, or the name and version of its
    distribution."""
    if is_built_in(kind):
        return "built in"
    distribution = entry_points()[kind].dist
    return "unknown" if distribution is None else f"{distribution.name} {distribution.version}"


def load(kind: str) -> type[Tool]:
    """The class of a kind. Raises ToolError where there is none, or where it cannot be imported."""
    point = entry_points().get(kind)
    if point is None:
        raise ToolError(
            "client_error", f"There is no tool of kind '{kind}'{_suggestion(kind, entry_points())}"
        )
    try:
        loaded = point.load()
    # Broad on purpose: an import runs foreign code, and one broken tool must not take the others
    # along.
    except Exception as error:
        raise ToolError(
            "internal",
            f"Tool kind '{kind}' cannot be loaded from {point.value}: {type(error).__name__}: "
            f"{error}{_place(error)}.",
            type=type(error).__name__,
            traceback=traceback.format_exc(),
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Tool)):
        raise ToolError("internal", f"Tool kind '{kind}': {point.value} is not a subclass of Tool.")
    if not hasattr(loaded, "declaration"):
        where = sys.modules[loaded.__module__].__file__
        raise ToolError(
            "internal",
            f"Tool kind '{kind}': {point.value} does not say its {', '.join(lacking(loaded))} ({where}).",
        )
    return loaded


def load_errors() -> list[str]:
    """Why installed kinds cannot be loaded, a sentence for each. Loads all of them."""
    found = []
    for kind in sorted(entry_points()):
        try:
            load(kind)
        except ToolError as error:
            found.append(error.message)
    return found


class InstalledKinds(Mapping[str, KindInfo]):
    """What the compiler needs to know of every installed kind, by name. Each is loaded when it is
    looked at first: most playbooks use two or three."""

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


_kinds = InstalledKinds()


def kinds() -> Mapping[str, KindInfo]:
    """All installed kinds. A broken one is known by name only."""
    return _kinds


@cache
def _info(kind: str) -> KindInfo:
    try:
        tool = load(kind)
    except ToolError as error:
        return KindInfo(kind=kind, queue=kind, description=error.message)
    return tool.info()


def touches(kind: str, config: Mapping[str, Json]) -> tuple[str, ...]:
    """What a call with `config` reaches outside of NoETL, as its kind says (see
    `Tool.touches`)."""
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
        #: Calls that run with secrets in them, by the id of the call without.
        self._with_secrets: dict[int, Call] = {}
        self._lock = threading.Lock()

    def kinds(self) -> Mapping[str, KindInfo]:
        """See `kinds`."""
        return kinds()

    def run(self, call: Call) -> Outcome | Suspension:
        """Runs a call. Whatever happens is an outcome (`meta.duration_ms` is how long it took) or a
        wait."""
        started = time.perf_counter()
        with open_secrets(call, self.services.safe) as secrets:
            outcome = secrets.mask_outcome(self._try(call, secrets))
        if not isinstance(outcome, Outcome):
            return outcome
        elapsed = round((time.perf_counter() - started) * 1000, 3)
        return replace(outcome, meta={"duration_ms": elapsed, **outcome.meta})

    def _try(self, call: Call, secrets: CallSecrets) -> Outcome | Suspension:
        try:
            tool = self._tool(call.kind)
            outcome = self._run_tool(tool, call, secrets)
            if not isinstance(outcome, Outcome):
                return outcome
            return self._check_result(tool, _warn_of_unknown_keys(outcome, tool.declaration, call.config))
        except ToolError as error:
            return _describe(error)
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

    def _run_tool(self, tool: Tool, call: Call, secrets: CallSecrets) -> Outcome | Suspension:
        opened = call if tool.declaration.hands_on else secrets.open_call(call)
        if opened is call:
            return tool.run(call, configure(tool.declaration, call.config))
        self._with_secrets[id(call)] = opened
        try:
            return tool.run(opened, configure(tool.declaration, opened.config))
        finally:
            del self._with_secrets[id(call)]

    def _tool(self, kind: str) -> Tool:
        tool = self._tools.get(kind)
        if tool is None:
            with self._lock:
                if kind not in self._tools:
                    self._tools[kind] = load(kind)(self.services)
                tool = self._tools[kind]
        return tool

    def _check_result(self, tool: Tool, outcome: Outcome) -> Outcome:
        """`outcome` with its result as plain JSON data, or the failure that it has none, or is too
        large."""
        if not outcome.ok:
            return outcome
        kind, limit = tool.declaration.error_kind, self.services.result_limit
        try:
            text = plain.dumps(outcome.result)
            if len(text) <= limit:
                return replace(outcome, result=json.loads(text))
            kind = "limit"
            message = (
                f"The result is larger than the {limit:,} bytes that are allowed; write it to a file, or "
                "move rows with `kind: transfer`."
            )
        except plain.NotJson as error:
            message = str(error)
        return failed(ErrorInfo(kind, message, type="ResultRefused"), outcome.meta, **outcome.extras)

    def interrupt(self, call: Call) -> None:
        """Ends a call that runs here; it fails as `cancelled`. Tools that cannot be stopped run
        on."""
        tool = self._tools.get(call.kind)
        if tool is not None:
            tool.interrupt(self._with_secrets.get(id(call), call))

    def close(self) -> None:
        """Gives back what the tools hold."""
        with self._lock:
            tools, self._tools = list(self._tools.values()), {}
        for tool in tools:
            tool.close()


def _place(error: BaseException) -> str:
    """Where a defect is, as ` (file.py:12)`: the innermost line that is neither ours nor the
    importing itself."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [one for one in frames if not one.filename.startswith((_OURS, "<frozen"))]
    return "".join(f" ({one.filename}:{one.lineno})" for one in (foreign or frames)[-1:])


def _describe(error: ToolError) -> Outcome:
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


def _warn_of_unknown_keys(outcome: Outcome, tool: ToolDeclaration, config: Mapping[str, Json]) -> Outcome:
    unknown = unknown_keys(tool, config)
    if not unknown:
        return outcome
    fields = tool.config_model.model_fields
    notes = [
        f"The key '{key}' means nothing to the {tool.kind} tool{_suggestion(key, fields)}" for key in unknown
    ]
    return replace(outcome, meta={**outcome.meta, "warnings": [*outcome.meta.get("warnings", ()), *notes]})


def _suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: what was probably meant, or what there is."""
    names = sorted(known)
    if near := nearest(word, names):
        return f"; did you mean '{near}'?"
    return f"; there are {', '.join(names)}." if names else "."
