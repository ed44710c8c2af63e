"""A whole deployment in one process, in which the test decides what happens next.

Every scheduler turn, every delivery and every sweep is a process of its own: a thread that stops
before and after each transaction, each message it sends and each tool call, and goes on only when
it is told to. Between two such points it may die; the world then lives on with what was committed.
Messages may be lost, doubled and overtaken, time may pass, leases may run out under a worker that
is merely slow.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from noetl.engine.state import State
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Suspension, ToolPort
from noetl.store import open_store
from noetl.testing import Message, Simulation, StillLeases
from noetl.usecases import catalog, control, inspect
from noetl.usecases.ports import ENDED, CommandRow, Dispatcher, Store, Transaction
from noetl.usecases.purposes import find_purpose
from noetl.usecases.runtime import Cache, Runtime, RuntimeLimits
from noetl.usecases.sweep import sweep
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.leases import End, Worker

#: Long leases and many lives: what is lost on the way must not show in the outcome.
PATIENT = RuntimeLimits(
    slice_s=0.0,
    commit_s=3600.0,
    commit_iterations=2,
    max_deliveries=1000,
    max_generations=1000,
    snapshot_events=7,
    turn_events=9,
    inline_bytes=400,
)


class Crash(BaseException):
    """The process is gone. Nothing catches this but the thread that it ends."""


class Process:
    """One unit of work that stops at every port call until `step` lets it go on."""

    def __init__(self, name: str, work: Callable[[], object], kind: str) -> None:
        self.name = name
        self.kind = kind
        self.leases: StillLeases | None = None
        self.over = False
        self.failure: BaseException | None = None
        self._work = work
        self._doomed = False
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _CURRENT.process = self
        self._go.acquire()
        try:
            if not self._doomed:
                self._work()
        except Crash:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, it becomes a broken promise
            self.failure = error
        self.over = True
        self._back.release()

    def step(self) -> None:
        """Goes on to the next port call, or to the end."""
        if not self.over:
            self._go.release()
            self._back.acquire()

    def crash(self) -> None:
        """Dies where it stands."""
        self._doomed = True
        self.step()

    def stop_here(self) -> None:
        """Called inside of the process: waits until it may go on."""
        self._back.release()
        self._go.acquire()
        if self._doomed:
            raise Crash


class _Current(threading.local):
    process: Process | None = None


_CURRENT = _Current()


def stop_here() -> None:
    """A point at which the process that calls may be overtaken, or die. Outside of processes:
    nothing."""
    process = _CURRENT.process
    if process is not None:
        process.stop_here()


class StoppingStore:
    """Stops before each transaction begins and after it has ended."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @contextmanager
    def _around(self, opened: Callable[[], AbstractContextManager[Transaction]]) -> Iterator[Transaction]:
        stop_here()
        with opened() as tx:
            yield tx
        stop_here()

    def begin(self) -> AbstractContextManager[Transaction]:
        return self._around(self._inner.begin)

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        return self._around(self._inner.begin_async_commit)

    def read(self) -> AbstractContextManager[Transaction]:
        return self._around(self._inner.read)

    def close(self) -> None:
        self._inner.close()


class StoppingDispatcher:
    """Stops before and after each message, so that a death leaves some of them unsent."""

    def __init__(self, inner: Dispatcher, wakes: bool) -> None:
        self._inner = inner
        self._wakes = wakes

    def send(self, commands: Sequence[CommandRow]) -> None:
        stop_here()
        for row in commands:
            self._inner.send([row])
            stop_here()

    def wake(self) -> None:
        if self._wakes:
            stop_here()
            self._inner.wake()
            stop_here()

    def waiting(self, queue: str) -> int:
        stop_here()
        return self._inner.waiting(queue)


class MeasuringTools(ToolPort):
    """Counts effects by idempotency key, and how many calls of a step run at once."""

    def __init__(self, inner: ToolPort) -> None:
        self._inner = inner
        #: Calls that came to their end.
        self.effects: list[Call] = []
        self.running: Counter[tuple[str, str]] = Counter()
        self.most: Counter[tuple[str, str]] = Counter()
        #: Begins of iterations: ((execution, run), iteration, task), in order.
        self.begun: list[tuple[tuple[str, str], int | None, str]] = []

    def run(self, call: Call) -> Outcome | Suspension:
        place = (call.where.execution_id, call.where.run_id)
        stop_here()
        self.running[place] += 1
        self.most[place] = max(self.most[place], self.running[place])
        self.begun.append((place, call.where.iteration, call.task))
        try:
            stop_here()
            outcome = self._inner.run(call)
            self.effects.append(call)
            stop_here()
        finally:
            self.running[place] -= 1
        return outcome

    def interrupt(self, call: Call) -> None:
        self._inner.interrupt(call)


class RememberedStates(Cache[str, State]):
    """A cache that also keeps every state that was ever put into it, by execution and version."""

    def __init__(self, seen: dict[tuple[str, int], State]) -> None:
        super().__init__(1024)
        self.seen = seen

    def put(self, key: str, value: State) -> None:
        self.seen[key, value.version] = value
        super().put(key, value)


#: What may happen, as often as it stands here: going on is likelier than trouble. See
#: `World._<name>`.
OPERATIONS = (
    *("step",) * 10,
    *("finish",) * 4,
    *("deliver",) * 8,
    "crash",
    "crash",
    "duplicate",
    "duplicate",
    "lose",
    "tick",
    "due",
    "expire",
    "beat",
    "sweep",
    "away",
    "pause",
    "resume",
)

#: Processes at one time: with more of them each would hardly get on.
MOST = 5

#: What happens in turn: (operation, argument); the argument is taken modulo what there is to choose
#: from.
Schedule = Sequence[tuple[str, int]]


@dataclass
class World:
    """One playbook, its executions and those that they call, and everybody who works on them."""

    playbook: str
    tools: dict[str, Callable[[Call], Json]] = field(default_factory=dict)
    limits: RuntimeLimits = PATIENT
    store: Store = field(default_factory=lambda: open_store("memory://"))
    wrap: Callable[[Store], Store] = lambda store: store
    schedulers: int = 2
    #: Whether there is a sweeper, and whether workers wake the scheduler when they report.
    sweeps: bool = True
    wakes: bool = True
    #: Whether a lane whose delivery was refused arrives at its chord all the same.
    refused_arrive: bool = False
    #: Playbooks that are called.
    others: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.sim = Simulation(self.playbook, self.tools, store=self.store, limits=self.limits)
        for text in self.others:
            catalog.register(self.sim.rt, text)
        self.mailbox = self.sim.mailbox
        self.measured = MeasuringTools(self.sim.tools)
        self.seen: dict[tuple[str, int], State] = {}
        self.ports = replace(
            self.sim.rt,
            store=StoppingStore(self.wrap(self.store)),
            dispatcher=StoppingDispatcher(self.mailbox, self.wakes),
            tools=self.measured,
        )
        self.turns: list[Process | None] = [None] * self.schedulers
        self.runtimes = [self._fresh() for _ in range(self.schedulers)]
        self.processes: list[Process] = []
        self.failures: list[BaseException] = []
        self.expired = False
        self.started: list[str] = []
        #: Lanes that returned, by chord: the body follows the last one, as a broker's counter sees
        #: it.
        self.arrived: Counter[str] = Counter()
        self._numbers = 0

    def _fresh(self) -> Runtime:
        """The runtime of a process that has just begun: empty caches."""
        return replace(self.ports, states=RememberedStates(self.seen), plans=Cache(16), compiled=Cache(16))

    def start(self, payload: dict[str, Json] | None = None) -> str:
        execution_id = self.sim.start(payload)
        self.started.append(execution_id)
        return execution_id

    def everybody(self) -> list[str]:
        """Those that were started and those that were called, oldest first."""
        if not self.others:
            return self.started
        with self.store.read() as tx:
            return [row.execution_id for row in reversed(tx.executions.find(limit=1000))]

    # --- what may happen -------------------------------------------------------------------------

    def play(self, schedule: Schedule) -> None:
        """Does what the schedule says."""
        for operation, argument in schedule:
            getattr(self, f"_{operation}")(argument)
            self._bury()

    def _step(self, argument: int) -> None:
        if self.processes:
            self.processes[argument % len(self.processes)].step()
        else:
            self._deliver(argument)

    def _finish(self, argument: int) -> None:
        """One process goes on to its end while all others stand."""
        if self.processes:
            process = self.processes[argument % len(self.processes)]
            for _ in range(500):  # nothing healthy takes as long
                process.step()

    def _deliver(self, argument: int) -> None:
        if len(self.processes) >= MOST:
            self._step(argument)
        elif self.mailbox.messages:
            self._begin(self.mailbox.messages.pop(argument % len(self.mailbox.messages)))

    def _crash(self, argument: int) -> None:
        if self.processes:
            process = self.processes[argument % len(self.processes)]
            process.crash()
            if process in self.turns:
                self.runtimes[self.turns.index(process)] = self._fresh()

    def _duplicate(self, argument: int) -> None:
        if self.mailbox.messages:
            self.mailbox.messages.append(self.mailbox.messages[argument % len(self.mailbox.messages)])

    def _lose(self, argument: int) -> None:
        if self.mailbox.messages:
            self.mailbox.messages.pop(argument % len(self.mailbox.messages))

    def _tick(self, _argument: int) -> None:
        self._pass(0.5)

    def _due(self, _argument: int) -> None:
        self._pass(6)

    def _expire(self, _argument: int) -> None:
        self._pass(31)

    def _pass(self, seconds: float) -> None:
        self.sim.now += timedelta(seconds=seconds)
        self.expired = self.expired or bool(self._expired_leases())

    def _expired_leases(self) -> list[CommandRow]:
        with self.store.read() as tx:
            return tx.commands.expired(self.sim.now, 1)

    def _beat(self, argument: int) -> None:
        workers = [process for process in self.processes if process.leases is not None]
        if workers:
            leases = workers[argument % len(workers)].leases
            assert leases is not None
            leases.beat()

    def _sweep(self, _argument: int) -> None:
        running = next((process for process in self.processes if process.kind == "sweeper"), None)
        if running is not None:
            running.step()
        elif self.sweeps:
            self._spawn("sweeper", lambda: sweep(self.ports))

    def _away(self, _argument: int) -> None:
        self.mailbox.away = not self.mailbox.away

    def _pause(self, argument: int) -> None:
        self._ask("pause", argument)

    def _resume(self, argument: int) -> None:
        self._ask("resume", argument)

    def _cancel(self, argument: int) -> None:
        self._ask("cancel", argument)

    def _ask(self, operation: str, argument: int) -> None:
        """Where the state of things allows it."""
        runs = self.everybody()
        run = runs[argument % len(runs)]
        row = inspect.execution(self.sim.rt, run)
        if row.status in ENDED or (operation == "resume") != (row.halt == "pause"):
            return
        verbs: dict[str, Callable[[Runtime, str], object]] = {
            "cancel": control.cancel,
            "pause": control.pause,
            "resume": control.resume,
        }
        verbs[operation](self.sim.rt, run)

    # --- processes -------------------------------------------------------------------------------

    def _spawn(self, kind: str, work: Callable[[], object]) -> Process:
        self._numbers += 1
        process = Process(f"{kind}-{self._numbers}", work, kind)
        self.processes.append(process)
        return process

    def _begin(self, message: Message) -> None:
        if message.command is None:
            self._turn(message)
            return
        row = message.command
        handler = find_purpose(row).handler
        leases = StillLeases(self.sim.rt)
        worker = Worker(self.ports, f"worker-{self._numbers}", leases)

        def work() -> None:
            end = handler(worker, row.command_id).end
            stop_here()
            if end is End.AGAIN:
                self.mailbox.messages.append(message)
            elif row.chord_id is not None and (end is End.DONE or self.refused_arrive):
                self._arrive(row.chord_id, row)

        self._spawn("worker", work).leases = leases

    def _arrive(self, chord: str, row: CommandRow) -> None:
        self.arrived[chord] += 1
        if self.arrived[chord] == row.chord_size:
            self.mailbox.messages.append(Message())

    def _turn(self, message: Message) -> None:
        """A scheduler serves one turn at a time; a wake that finds none free waits."""
        if None not in self.turns:
            self.mailbox.messages.append(message)
            return
        number = self.turns.index(None)
        rt = self.runtimes[number]
        self.turns[number] = self._spawn("scheduler", lambda: advance(rt))

    def _bury(self) -> None:
        for process in [process for process in self.processes if process.over]:
            self.processes.remove(process)
            if process.failure is not None:
                self.failures.append(process.failure)
            if process in self.turns:
                self.turns[self.turns.index(process)] = None

    # --- the end ---------------------------------------------------------------------------------

    def settle(self, rounds: int = 60) -> bool:
        """No more trouble: lets everything that runs and that is due come to its end.

        False where some execution does not end (or, with outside input missing, does not come to
        rest).
        """
        self.mailbox.away = False
        for _ in range(rounds):
            self._quiet()
            # In any case: who waits for one that is paused does not rest.
            resumed = self._paused()
            if self.resting and not resumed:
                return True
            if not self.sweeps:
                return False
            self._pass(61)
            sweep(self.sim.rt)
        return self.resting

    def _paused(self) -> bool:
        """Whether something was paused, and has just been resumed."""
        before = [inspect.execution(self.sim.rt, run).halt for run in self.everybody()]
        for number in range(len(before)):
            self._ask("resume", number)
        return "pause" in before

    def _quiet(self, limit: int = 3_000) -> None:
        for _ in range(limit):
            self._bury()
            if self.processes:
                self.processes[0].step()
            elif self.mailbox.messages:
                self._begin(self.mailbox.messages.pop(0))
            else:
                return
        raise AssertionError("the world does not come to rest")

    def abandon(self) -> None:
        """Ends every thread that is left."""
        for process in self.processes:
            process.crash()
        self.processes.clear()

    @property
    def resting(self) -> bool:
        """Nothing more can come: every execution has ended and has told whom it concerns, or waits
        for somebody outside."""
        rows = [inspect.execution(self.sim.rt, run) for run in self.everybody()]
        with self.store.read() as tx:
            told = all(row.status not in ENDED or not tx.commands.open_of(row.execution_id) for row in rows)
        return told and all(
            row.status in ENDED | {"waiting", "paused"} and row.head_version == row.decided_version
            for row in rows
        )

    # --- what can be seen ------------------------------------------------------------------------

    def iterations_by_run(self) -> dict[tuple[str, str], list[int]]:
        """Iterations in the order in which their first task began."""
        order: dict[tuple[str, str], list[int]] = defaultdict(list)
        for (execution, run), iteration, _ in self.measured.begun:
            if iteration is not None:
                order[execution, run].append(iteration)
        return order
