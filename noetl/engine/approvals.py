"""Approvals that tasks wait for: the answers that count, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from noetl.engine.changes import replace
from noetl.engine.state import State
from noetl.engine.wait_state import Answer, PendingWait, Timer
from noetl.facts import events as e
from noetl.facts.approvals import ApprovalAnswered
from noetl.facts.durations import compact
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.waits import Awaited

# --- folding --------------------------------------------------------------------------------------


def fold_answer(state: State, fact: ApprovalAnswered, draft: Draft) -> State:
    """It is kept until its wait has ended; copies come before that begins."""
    principal = draft.caller.principal if draft.caller else ""
    answer = Answer(state.version, draft.step or "", draft.iteration, fact, principal)
    return replace(state, answers=(*state.answers, answer))


def drop_answers(state: State, wait: PendingWait) -> State:
    """The wait has ended."""
    if not state.answers:
        return state
    return replace(state, answers=tuple(one for one in state.answers if not _is_to(one, wait)))


def _is_to(answer: Answer, wait: PendingWait) -> bool:
    place = (answer.step, answer.iteration, answer.fact.task)
    return place == (wait.step, wait.iteration, wait.task)


# --- looking --------------------------------------------------------------------------------------


def find_answers(state: State, wait: PendingWait, one: Awaited) -> Iterator[Answer]:
    """What was answered to what is shown now, the first of each person."""
    if one.approval is None:
        return
    shown, seen = one.approval.shown(state.execution_id), set[str]()
    for answer in state.answers:
        fact = answer.fact
        is_meant = _is_to(answer, wait) and (fact.name, fact.shown) == (one.name, shown)
        if is_meant and answer.principal not in seen:
            seen.add(answer.principal)
            yield answer


def open_approvals(state: State) -> Iterator[tuple[PendingWait, Awaited]]:
    """Those that are waited for and not decided, in the order in which they were asked for."""
    for wait in state.waits.values():
        for one in wait.left:
            if one.approval is not None and find_verdict(state, wait, one) is None:
                yield wait, one


def decided_approvals(state: State) -> Iterator[tuple[PendingWait, Awaited]]:
    """Those that are waited for although enough was answered: no turn has come since."""
    for wait in state.waits.values():
        for one in wait.left:
            if one.approval is not None and find_verdict(state, wait, one) is not None:
                yield wait, one


def count_open(state: State) -> int:
    """How many of them there are."""
    return sum(1 for _ in open_approvals(state)) if state.waits else 0


def find_end(state: State, wait: PendingWait, one: Awaited) -> str | None:
    """The last instant (UTC, ISO 8601) at which it can be answered, where there is one."""
    place = (wait.run_id, wait.iteration)
    return min(
        (
            timer.due_at
            for timer in state.timers.values()
            if (timer.run_id, timer.iteration) == place
            and timer.due_at is not None
            and (timer.purpose == "timeout" or (timer.purpose, timer.awaited) == ("expiry", one.name))
        ),
        key=datetime.fromisoformat,
        default=None,
    )


def describe_approval(state: State, wait: PendingWait, one: Awaited) -> JsonMap:
    """`{by, count, message, show, form, four_eyes, shown, reminded, answers}` of an approval that
    is waited for."""
    asked = one.approval
    assert asked is not None, "it is an approval"
    return {
        "by": list(asked.by),
        "count": asked.count,
        "message": asked.message,
        "show": asked.show,
        "form": asked.form,
        "four_eyes": asked.four_eyes,
        "shown": asked.shown(state.execution_id),
        "reminded": wait.reminded.get(one.name, 0),
        "answers": [_show(answer) for answer in find_answers(state, wait, one)],
    }


def _show(answer: Answer) -> JsonMap:
    fact = answer.fact
    return {
        "by": answer.principal,
        "answer": fact.answer,
        "at": fact.at,
        "reason": fact.reason,
        "values": fact.values,
    }


# --- deciding -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolution:
    """What answers have come to, at the instant (`at`) of the one that decided: the result, or why
    it failed."""

    at: str
    come: JsonMap | e.WaitFailed


def find_verdict(state: State, wait: PendingWait, one: Awaited) -> Resolution | None:
    """None while answers are missing. The first rejection ends it, unless enough had approved
    before."""
    asked = one.approval
    assert asked is not None, "it is an approval"
    approved: list[Answer] = []
    for answer in find_answers(state, wait, one):
        if answer.fact.answer == "reject":
            return Resolution(answer.fact.at, _reject(wait, answer))
        approved.append(answer)
        if len(approved) == asked.count:
            return Resolution(answer.fact.at, _approve(approved))
    return None


def _approve(answers: list[Answer]) -> JsonMap:
    """Of two that fill in the form differently the later one counts."""
    values: dict[str, object] = {}
    for answer in answers:
        values |= answer.fact.values
    by = [answer.principal for answer in answers]
    return {"by": by, "at": answers[-1].fact.at, "values": values, "answers": [_show(one) for one in answers]}


def _reject(wait: PendingWait, answer: Answer) -> e.WaitFailed:
    reason = f": {answer.fact.reason}" if answer.fact.reason else "."
    message = f"{answer.principal} rejected what task '{wait.task}' asks for{reason}"
    return e.WaitFailed(wait.task, ErrorInfo("client_error", message, type="Rejected"))


def expire(wait: PendingWait, timer: Timer) -> e.WaitFailed:
    """Nobody can answer any more."""
    length = f" within {compact(timer.seconds)}" if timer.seconds is not None else " in time"
    message = f"What task '{wait.task}' asks for was not approved{length}."
    return e.WaitFailed(wait.task, ErrorInfo("timeout", message, type="ApprovalExpired"))
