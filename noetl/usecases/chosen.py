"""Acts on several executions that somebody chose by hand.

`noetl.usecases.fleet` is for those that a condition means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from noetl.errors import BadRequest, NoetlError, Unavailable
from noetl.usecases import control, moment
from noetl.usecases.access import Principal, lacking
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.runtime import Runtime

Act: TypeAlias = Literal["cancel", "pause", "resume", "retry"]

#: Executions that are acted on at once: who asks waits for all of them.
MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of an act on one execution. `refused` says in a sentence why it was not done, and
    is empty where it was; `became` is the execution that retries it."""

    execution_id: str
    refused: str = ""
    became: str | None = None


def act_on(
    rt: Runtime,
    principal: Principal,
    act: Act,
    execution_ids: Sequence[str],
    reason: str = "",
    *,
    confirmed: bool = False,
) -> list[Acted]:
    """Does the same to each of these executions, in their order and once, whatever comes of the
    others. A retry makes calls again that may have had effects only where that is `confirmed`.

    Raises BadRequest for too many at once, before anything is done; and Unavailable, where some
    may have been acted on.
    """
    chosen = list(dict.fromkeys(execution_ids))
    if len(chosen) > MOST:
        raise BadRequest(
            f"{len(chosen)} executions were chosen; at most {MOST} are acted on at once: choose fewer."
        )
    return [_act(rt, principal, act, execution_id, reason, confirmed=confirmed) for execution_id in chosen]


def _act(
    rt: Runtime, principal: Principal, act: Act, execution_id: str, reason: str, *, confirmed: bool
) -> Acted:
    try:
        check_may_operate(rt, principal, execution_id)
        return Acted(execution_id, became=_do(rt, act, execution_id, reason, confirmed=confirmed))
    except Unavailable:
        raise
    except NoetlError as error:
        return Acted(execution_id, refused=error.message)


def check_may_operate(rt: Runtime, principal: Principal, execution_id: str) -> None:
    """Raises NotFound for what the principal may not know of, and Forbidden for what it may only
    look at."""
    with rt.store.read() as tx:
        path = moment.find(tx, execution_id).path
    if not principal.may("read", path):
        raise moment.no_execution(execution_id)
    if not principal.may("operate", path):
        raise lacking(principal, "operate", f"playbook {path[:200]!r}")


def _do(rt: Runtime, act: Act, execution_id: str, reason: str, *, confirmed: bool) -> str | None:
    """The execution that was begun, where one was."""
    match act:
        case "cancel":
            control.cancel(rt, execution_id, reason)
        case "pause":
            control.pause(rt, execution_id, reason)
        case "resume":
            control.resume(rt, execution_id, reason)
        case "retry":
            return retry(rt, RetryRequest(execution_id, confirmed=confirmed)).execution_id
        case _:
            assert_never(act)
    return None
