"""`cache` of tasks, as a command uses it: what equal calls have come to, and what its own come to,
which others have from the moment on that the log has it (T4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from noetl.engine.plan import Plan
from noetl.facts.fingerprint import digest
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import REUSED, Outcome, succeeded
from noetl.facts.reference import MANIFEST, references_in
from noetl.facts.waits import BEHIND_LOCK
from noetl.pipeline.model import CachedCall, CachePort, Later, Where
from noetl.usecases.ports import ENDED, CachedRow, CallLock, CallSite, CommandRow, Transaction
from noetl.usecases.runtime import Runtime

#: How long a call waits for an equal one before it looks again: half as long as that takes so far.
#: Shorter waits would keep the worker (`pipeline.interpreter`).
_SHORTEST_WAIT_S: Final = 2.0
_LONGEST_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Settled:
    """A call that was made; the outcome None: it came to nothing that another may have."""

    key: str
    call: CachedCall
    outcome: Outcome | None


def cache_of(rt: Runtime, plan: Plan, command: CommandRow) -> CommandCache:
    """The cache for the calls of `command`."""
    return CommandCache(rt, plan.net.path, "afresh" in command.context or not rt.caching)


@dataclass(slots=True)
class CommandCache(CachePort):
    """The cache for the calls of one command, whose playbook is at `path`. `afresh`: nothing stands
    in for them, but for others they do."""

    rt: Runtime
    path: str
    afresh: bool = False
    _settled: list[_Settled] = field(default_factory=list)

    def find(self, call: CachedCall, /) -> Outcome | Later | None:
        key = None if self.afresh else self._key(call)
        if key is None:
            return None
        own = next((one for one in reversed(self._settled) if one.key == key and one.outcome), None)
        if own is not None and own.outcome is not None:
            return _stand_in(own.outcome.result, own.outcome.extras, _site(own.call), self.rt.clock())
        with self.rt.store.read() as tx:
            row = tx.cached.get(key, self.rt.clock())
        if row is not None and (found := self._take(row, call.where)) is not None:
            return found
        return self._hold(key, call) if call.lock else None

    def settle(self, call: CachedCall, outcome: Outcome | None, /) -> None:
        key = self._key(call)
        if key is None or (outcome is None and not call.lock):
            return
        lasts = outcome is not None and _is_lasting(outcome.result, call.where.execution_id)
        self._settled.append(_Settled(key, call, outcome if lasts else None))

    def into(self, tx: Transaction) -> None:
        """Writes what was settled, in the transaction that records it."""
        now = self.rt.clock()
        for one in self._settled:
            site = _site(one.call)
            if one.outcome is not None:
                tx.cached.save(_row(one.key, self.path, one.call, one.outcome, now))
            if one.call.lock:
                tx.cached.release(one.key, site)

    def clear(self) -> None:
        """What was settled is committed."""
        self._settled.clear()

    def _key(self, call: CachedCall) -> str | None:
        """None where the code cannot be seen from here."""
        text = self.rt.file_digest(call.where.execution_id, call.file) if call.file else ""
        if text is None:
            return None
        scope = self.path if call.scope == "playbook" else "*"
        return digest(f"{scope}\n{text}\n{call.key}")

    def _take(self, row: CachedRow, where: Where) -> Outcome | None:
        """What the row says; None where a large result of it is gone."""
        result, extras = row.outcome["result"], row.outcome["extras"]
        references = list(references_in(result))
        if references and not self._keep(row, where.execution_id):
            return None
        if not all(map(self.rt.holds, references)):
            with self.rt.store.begin() as tx:
                tx.cached.remove(key=row.key)
            return None
        return _stand_in(result, extras, row.site, row.created_at)

    def _keep(self, row: CachedRow, user_id: str) -> bool:
        """Large results of another execution stay as long as this one names them. False where the
        row is gone: they are about to be cleared away."""
        with self.rt.store.begin() as tx:
            if tx.cached.lock(row.key, self.rt.clock()) is None:
                return False
            if row.site.execution_id != user_id:
                tx.cached.use(row.site.execution_id, user_id)
        return True

    def _hold(self, key: str, call: CachedCall) -> Outcome | Later | None:
        """Takes the lock of the call, or waits for who has it. An equal one that has just ended
        stands in."""
        now = self.rt.clock()
        ours = CallLock(_site(call), now)
        with self.rt.store.begin() as tx:
            held = tx.cached.hold(key, ours)
            if held.site != ours.site and not _is_at_work(tx, held.site):
                held = ours if tx.cached.take_over(key, held, ours) else held
            if held.site != ours.site:
                waited = (now - held.taken_at).total_seconds() / 2
                wait_s = min(max(waited, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)
                return Later(wait_s, reason=f"{BEHIND_LOCK}{key}")
            row = tx.cached.get(key, now)
            if row is not None:
                tx.cached.release(key, ours.site)
        return None if row is None else self._take(row, call.where)


def _is_lasting(result: Json, execution_id: str) -> bool:
    """Whether what it refers to lasts for others: it does not where it goes with the end of the
    execution, nor where it is another's."""
    lasting = ("permanent", "until", f"executions/{execution_id}")
    return all(any(f"/{place}/" in name for place in lasting) for name in _names_in(result))


def _names_in(result: Json) -> Iterator[str]:
    for reference in references_in(result):
        parts = reference["parts"] if reference["kind"] == MANIFEST else [{"ref": reference}]
        yield from (str(part["ref"].get("ref", "")) for part in parts)


def _is_at_work(tx: Transaction, site: CallSite) -> bool:
    """Whether the run of a call has not ended: then it will be made, by whichever worker."""
    execution = tx.executions.get(site.execution_id)
    if execution is None or execution.status in ENDED:
        return False
    return not any(tx.events.recorded(site.execution_id, key) for key in _ends(site))


def _ends(site: CallSite) -> Iterable[str]:
    """Keys of events after which nothing of it goes on."""
    yield f"end:{site.run_id}"
    yield f"cancelled:{site.run_id}"
    if site.iteration is not None:
        yield f"iteration:{site.run_id}/{site.iteration}"


def _site(call: CachedCall) -> CallSite:
    return CallSite(call.where.execution_id, call.where.run_id, call.where.iteration, call.task)


def _row(key: str, path: str, call: CachedCall, outcome: Outcome, now: datetime) -> CachedRow:
    said = {"result": outcome.result, "extras": outcome.extras}
    until = now + timedelta(seconds=call.ttl)
    return CachedRow(key, path, call.scope, call.kind, _site(call), said, now, until)


def _stand_in(result: object, extras: JsonMap, site: CallSite, at: datetime) -> Outcome:
    whose = {
        "execution_id": site.execution_id,
        "run_id": site.run_id,
        "iteration": site.iteration,
        "task": site.task,
        "at": at.isoformat(),
    }
    return succeeded(result, {"duration_ms": 0.0, REUSED: whose}, **extras)
