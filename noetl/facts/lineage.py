"""How an execution descends from another one, and what it takes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

#: Why runs are made again that `from_run` and `iterations` name.
ASKED_FOR: Final = "asked for"


@dataclass(frozen=True, slots=True)
class RetryOf:
    """The execution that is run again: what it recorded stands in for calls that nothing has
    changed for.

    The run `from_run`, and all that its tokens led to, run again whatever is equal. Of loops,
    iterations that went well stand although their code has changed (`failed`), or none stand of a
    loop that failed (`all`). `attempt` is the number of this one where the policy of the playbook
    asked for it; who asks for it by hand begins anew with 1."""

    execution_id: str
    from_run: str = ""
    iterations: Literal["", "failed", "all"] = ""
    attempt: int = 1
    #: The other one was open, and ended when this one took over what it had come to: what was
    #: assigned in its ctx from outside counts here, too.
    migrates: bool = False


#: How much of a run stands in for another one.
How: TypeAlias = Literal["whole", "part", "none"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a firing takes of the execution that is run again: of its run `run_id` the end
    (`whole`), or what had ended of it (`part`), or nothing (`none`), for that `reason`. `tasks` are
    those whose ends stand, where they ended. With an `execution_id` it is a run of that one, which
    the other one ran again itself, and to which it had not come."""

    how: How
    run_id: str | None = None
    reason: str = ""
    tasks: tuple[str, ...] = ()
    execution_id: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether nothing is to stand in for its calls, whatever is equal."""
        return self.reason == ASKED_FOR
