"""A whole execution in this process: the use cases of production over a store in memory, with time
and every message in the hands of whoever runs it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from noetl.errors import ToolError, Unavailable
from noetl.facts import json
from noetl.facts.callbacks import read_token
from noetl.facts.children import ChildCall
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome
from noetl.facts.secret import seal_reference
from noetl.facts.waits import Wait
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call, Suspension, ToolPort
from noetl.results import open_results
from noetl.store import open_store
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.base import Services
from noetl.tools.kit.declaration import configure
from noetl.tools.playbook import CallPlaybook, PlaybookConfig
from noetl.tools.wait import WaitConfig, WaitForIt
from noetl.trial.stand_ins import ask_function
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED, CommandRow, Library, Results, Store
from noetl.usecases.purposes import find_purpose
from noetl.usecases.runtime import Runtime, RuntimeLimits
from noetl.usecases.start import StartRequest, start
from noetl.usecases.sweep import sweep
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.leases import End, Leases, Worker

#: Executions of one simulation that are asked what they wait for.
_MOST = 10_000

#: Seals what simulated tools are handed.
_KEY: Final = b"simulated"
#: When simulations begin.
START = datetime(2026, 1, 1, tzinfo=UTC)

#: What a scripted tool does with a call: yields a result, an outcome, or a wait; what it raises
#: fails the call.
Scripted = Callable[[Call], Any]


class ScriptedTools(ToolPort):
    """Tools from functions: `{"python": lambda call: {"n": 1}}`."""

    def __init__(self, functions: Mapping[str, Scripted]) -> None:
        self._functions = functions
        self.calls: list[Call] = []

    def run(self, call: Call) -> Outcome | Suspension:
        self.calls.append(call)
        return ask_function(self._functions[call.kind], call)

    def interrupt(self, call: Call) -> None:
        """Scripted calls end at once; there is nothing to interrupt."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was sent and not yet delivered: a command, or a wake (`command` None)."""

    command: CommandRow | None = None


@dataclass(slots=True)
class Mailbox:
    """A dispatcher that keeps messages until the test delivers them."""

    messages: list[Message] = field(default_factory=list)
    away: bool = False

    def send(self, commands: Sequence[CommandRow]) -> None:
        self._here()
        self.messages += [Message(row) for row in commands]

    def wake(self) -> None:
        self._here()
        if Message() not in self.messages:
            self.messages.append(Message())

    def waiting(self, _queue: str) -> int:
        """None: a message that was not delivered when time passes is taken for lost."""
        self._here()
        return 0

    def _here(self) -> None:
        if self.away:
            raise Unavailable("The mailbox is away.")


#: Kinds that simulations know by default.
KINDS = (
    {kind: KindInfo(kind, queue=kind, effects="none") for kind in ("http", "noop", "shell")}
    | {
        kind: KindInfo(kind, queue=kind, effects="none", verbatim_with_params=("command",))
        for kind in ("postgres", "duckdb", "sqlite")
    }
    | {
        "python": KindInfo(
            "python", queue="python", effects="none", verbatim=("code",), python_keys=("code",)
        ),
        "playbook": CallPlaybook.info(),
        "wait": WaitForIt.info(),
    }
)


def default_tools() -> dict[str, Scripted]:
    """`noop` yields its `result` or its input, `python` evaluates `code` with the inputs as
    names."""

    def python(call: Call) -> Json:
        scope: dict[str, Any] = {**call.args, "args": dict(call.args), "input_data": dict(call.args)}
        try:
            exec(str(call.config.get("code", "")), scope)  # noqa: S102 - the test's own code
        except Exception as error:
            raise ToolError("python", str(error), type=type(error).__name__) from error
        return scope.get("result")

    def playbook(call: Call) -> ChildCall:
        return CallPlaybook(Services()).run(call, PlaybookConfig.model_validate(call.config))

    def wait(call: Call) -> Wait:
        config = configure(WaitForIt.declaration, call.config)
        assert isinstance(config, WaitConfig), "it declares that"
        return WaitForIt(Services()).run(call, config)

    return {
        "python": python,
        "noop": lambda call: call.config.get("result", dict(call.args)),
        "playbook": playbook,
        "wait": wait,
    }


class StillLeases(Leases):
    """Leases without a thread: the worker's heart beats when the test calls `beat`."""

    def start(self) -> None:
        """Nothing beats by itself."""


class NeverRests(AssertionError):
    """Messages and delays have no end."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a simulation has of the world, beside its own: when it begins, the variables that
    templates see, where called playbooks are found, and tools and a store for results in the place
    of its own."""

    now: datetime = START
    env: JsonMap = field(default_factory=dict)
    library: Library | None = None
    tools: ToolPort | None = None
    results: Results | None = None
    #: Whether what a call came to stands in for others, where their tasks say so.
    caching: bool = True


class Simulation:
    """One playbook and its executions, with time and every message in the hands of the test."""

    def __init__(
        self,
        playbook: str,
        tools: Mapping[str, Scripted] | None = None,
        *,
        store: Store | None = None,
        limits: RuntimeLimits | None = None,
        wrap: Callable[[Store], Store] | None = None,
        kinds: Mapping[str, KindInfo] | None = None,
        file: str = "test.yaml",
        outside: Outside | None = None,
    ) -> None:
        outside = outside or Outside()
        self.now = outside.now
        self.mailbox = Mailbox()
        self.tools = ScriptedTools({**default_tools(), **(tools or {})})
        opened = store or open_store("memory://")
        #: Threads that start executions at once draw from it as well.
        self._drawn = itertools.count(1)
        self.rt = Runtime(
            store=wrap(opened) if wrap else opened,
            dispatcher=self.mailbox,
            results=outside.results or open_results(f"memory://{uuid4().hex}"),
            tools=outside.tools or self.tools,
            kinds=KINDS if kinds is None else kinds,
            clock=lambda: self.now,
            entropy=self._draw,
            random=lambda: 0.5,
            sleep=self._sleep,
            caching=outside.caching,
            env=outside.env,
            library=outside.library,
            limits=limits or RuntimeLimits(slice_s=3600.0),
            quoting=CommandLine,
            checks_prerequisites=False,
            # Nobody opens what simulated tools are handed: they see references.
            seal=lambda reference: seal_reference(reference, _KEY),
            read_token=lambda token: read_token(token, [_KEY]),
            encrypt=lambda data: json.dumps(dict(data)).encode(),
        )
        self.leases = StillLeases(self.rt)
        self.worker = Worker(self.rt, "simulated", self.leases)
        self.path = catalog.register(self.rt, playbook, file).path

    def _sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _draw(self) -> int:
        return next(self._drawn)

    def start(self, payload: JsonMap | None = None, **overrides: Json) -> str:
        """Requests an execution and returns its id; nothing has run yet."""
        request = StartRequest(self.path, payload=payload or {}, overrides=overrides)
        return start(self.rt, request).execution_id

    def deliver(self, index: int = 0) -> None:
        """Hands one message to whom it is for."""
        message = self.mailbox.messages.pop(index)
        if message.command is None:
            advance(self.rt)
            return
        row = message.command
        if find_purpose(row).handler(self.worker, row.command_id).end is End.AGAIN:
            self.mailbox.messages.append(message)

    def pass_time(self, seconds: float) -> None:
        """Moves the clock and sweeps once, as the sweeper would."""
        self.now += timedelta(seconds=seconds)
        sweep(self.rt)

    def settle(self, limit: int = 10_000) -> None:
        """Delivers messages in order until none are left. Raises AssertionError where that takes
        more than `limit`."""
        for _ in range(limit):
            if not self.mailbox.messages:
                return
            self.deliver()
        raise AssertionError(f"messages are still moving after {limit} deliveries")

    def rest(self, limit: int = 10_000) -> None:
        """Delivers messages, and moves the clock to the next instant that something waits for,
        until nothing happens by itself any more. Raises NeverRests where that takes more than
        `limit` moves."""
        for _ in range(limit):
            if self.mailbox.messages:
                self.deliver()
            elif (due := self.next_due()) is not None:
                self.now = max(self.now, due)
                sweep(self.rt)
            else:
                return
        raise NeverRests(f"it does not come to rest within {limit} messages and delays")

    def next_due(self) -> datetime | None:
        """The next instant that an execution waits for."""
        with self.rt.store.read() as tx:
            rows = [row for row in tx.executions.find(limit=_MOST) if row.status not in ENDED]
            commands = [one for row in rows for one in tx.commands.open_of(row.execution_id)]
        instants = [*(row.next_wake_at for row in rows), *(one.due_at for one in commands)]
        return min((one for one in instants if one is not None), default=None)

    def run(self, payload: JsonMap | None = None, **overrides: Json) -> inspect.Report:
        """Starts an execution, lets it come to rest, and returns its report. Retry delays pass at
        once."""
        execution_id = self.start(payload, **overrides)
        self.rest()
        return self.report(execution_id)

    def report(self, execution_id: str) -> inspect.Report:
        return inspect.report(self.rt, execution_id)

    def events(self, execution_id: str) -> list[Event]:
        return inspect.events(self.rt, execution_id)

    def types(self, execution_id: str) -> list[str]:
        return [event.fact.type for event in self.events(execution_id)]
