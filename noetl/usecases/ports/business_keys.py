"""The port of business keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, order=True, slots=True)
class NamedKey:
    """A business key of a playbook."""

    path: str
    key: str

    def __str__(self) -> str:
        """As addresses have it."""
        return f"{self.path}:{self.key}"


class BusinessKeys(Protocol):
    """Which execution each business key means: the last one that got it. It is taken by another one
    only where that has ended, or is asked to cancel."""

    def claim(self, claims: Mapping[NamedKey, str]) -> Mapping[NamedKey, str]:
        """Claims keys, in their order, each for the execution of that id. Returns which execution
        each of them means now: where it was taken, the earlier one. Waits for transactions that
        claim the same."""

    def take_over(self, name: NamedKey, holder: str, execution_id: str) -> bool:
        """Makes the key mean another execution. False where it does not mean `holder` any more;
        waits for transactions that change the same."""

    def get(self, name: NamedKey) -> str | None:
        """The execution that it means."""

    def find(self, keys: Sequence[str]) -> Mapping[NamedKey, str]:
        """Which executions these keys mean, of all playbooks."""
