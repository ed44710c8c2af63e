"""Whatever is asked for, in whatever order: never more than the limit, all keys or none, and every
request is served at last."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from noetl.engine.serving import SlotAskers, serve
from noetl.facts.limits import SlotRow
from noetl.store import open_store
from tests.budget import examples

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEYS = ("a", "b", "c")
#: Everybody who names a key says the same limit of it.
LIMITS = {"a": 1, "b": 2, "c": 3}
RATES = {"rate:r": (2, 10.0)}
keys = st.sets(st.sampled_from(KEYS), min_size=1)


class SlotMachine(RuleBasedStateMachine):
    """Executions that ask for slots, get them in turns of their own, and end."""

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store("memory://")
        self.now = START
        self.numbers = iter(range(1, 10_000))
        self.open: dict[str, set[str]] = {}

    def teardown(self) -> None:
        self._drain()
        self.store.close()

    def _rows(self, name: str, wanted: set[str], priority: int) -> list[SlotRow]:
        rows = [
            SlotRow(name, "", "-", key, LIMITS[key], self.now, priority=priority)
            for key in wanted - set(RATES)
        ]
        for key in wanted & set(RATES):
            limit, per_s = RATES[key]
            rows.append(SlotRow(name, "", "-", key, limit, self.now, per_s=per_s, priority=priority))
        return rows

    def _take_turn(self, names: list[str]) -> None:
        with self.store.begin() as tx:
            wanted = {key for name in names for key in self.open[name]}
            tx.slots.lock(wanted)
            paused = {one.name for one in tx.slots.paused("key")}
            asking = SlotAskers({f"{name}//-" for name in names})
            tx.slots.grant(serve(tx.slots.related(wanted), asking, paused, self.now).granted)

    def _wake(self) -> set[str]:
        """The executions that whoever looks behind a commit asks for turns."""
        with self.store.begin() as tx:
            paused = {one.name for one in tx.slots.paused("key")}
            found = serve(tx.slots.related(tx.slots.waiting_keys()), SlotAskers(), paused, self.now)
            tx.slots.offer(sorted(found.ready), self.now)
        return set(found.ready)

    @rule(wanted=keys, priority=st.integers(0, 9), with_rate=st.booleans())
    def ask(self, wanted: set[str], priority: int, with_rate: bool) -> None:
        name = str(next(self.numbers))
        wanted = wanted | (set(RATES) if with_rate else set())
        self.open[name] = wanted
        with self.store.begin() as tx:
            tx.slots.lock(wanted)
            tx.slots.add(self._rows(name, wanted, priority))
        self._take_turn([name])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Whatever it is: it may hold its slots, or still wait for them."""
        name = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[name]
        with self.store.begin() as tx:
            tx.slots.free_execution(name)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take_turns(self, data: st.DataObject) -> None:
        """Of anybody, whether asked to or not."""
        self._take_turn(data.draw(st.lists(st.sampled_from(sorted(self.open)), min_size=1, unique=True)))

    @rule(seconds=st.sampled_from([0.1, 5.0, 11.0, 120.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def follow_wakes(self) -> None:
        if names := self._wake() & set(self.open):
            self._take_turn(sorted(names))

    @invariant()
    def never_more_than_the_limit(self) -> None:
        with self.store.read() as tx:
            rows = [row for row in tx.slots.of_key() if row.granted_at is not None]
        held = Counter(row.key for row in rows if row.per_s is None)
        assert all(held[key] <= LIMITS[key] for key in KEYS)
        starts = sorted(row.granted_at for row in rows if row.key == "rate:r" and row.granted_at is not None)
        limit, per_s = RATES["rate:r"]
        for first, beyond in zip(starts, starts[limit:], strict=False):
            assert (beyond - first).total_seconds() >= per_s

    @invariant()
    def all_keys_or_none(self) -> None:
        with self.store.read() as tx:
            rows = tx.slots.of_key()
        for name, wanted in self.open.items():
            held = {row.key for row in rows if row.execution_id == name and row.granted_at is not None}
            assert held in (set(), wanted) or held | set(RATES) == wanted | set(RATES)

    def _drain(self) -> None:
        """With nobody new, who holds ends, and whoever is woken takes a turn: all come to be
        served."""
        for _ in range(10 * len(self.open) + 50):
            if not self.open:
                return
            with self.store.begin() as tx:
                rows = tx.slots.of_key()
                waiting = {row.execution_id for row in rows if row.granted_at is None}
                for name in set(self.open) - waiting:
                    tx.slots.free_execution(name)
                    del self.open[name]
            self.now += timedelta(seconds=1)
            if names := self._wake() & set(self.open):
                self._take_turn(sorted(names))
        raise AssertionError(f"{len(self.open)} were never served")


SlotMachine.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=40, deadline=None)
TestSlots = SlotMachine.TestCase
