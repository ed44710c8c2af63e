"""Seeded defects: what each breaks, under which fixed schedules that is noticed, and what is said
then."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from world import Schedule

#: Breaks something; may return options of a world that is broken.
Break = Callable[[pytest.MonkeyPatch], dict[str, Any] | None]


class Scenario(ABC):
    """Something that is played: what may happen to it, how often and for how long."""

    operations: tuple[str, ...]
    seeds: range
    length: int

    def schedules(self) -> Iterator[Schedule]:
        """One for each seed."""
        for seed in self.seeds:
            draw = random.Random(seed)
            yield [(draw.choice(self.operations), draw.randrange(8)) for _ in range(self.length)]

    @abstractmethod
    def trouble(self, schedule: Schedule, **options: Any) -> list[str]:
        """What is broken under the schedule, in a world with these options."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Computes what has to be known before anything is broken."""

    def troubles(self) -> list[str]:
        """What is broken under all schedules."""
        return [said for schedule in self.schedules() for said in self.trouble(schedule)]

    def first_trouble(self, **options: Any) -> str:
        """What the first schedule that notices something says."""
        try:
            found = (self.trouble(schedule, **options) for schedule in self.schedules())
            return "; ".join(next(filter(None, found), []))
        except Exception as error:  # noqa: BLE001 - a defect may show in any way
            return repr(error)


@dataclass(frozen=True)
class Defect:
    """What breaks something, the scenario that notices, and what it says then."""

    apply: Break
    scenario: Scenario
    because: str


@dataclass
class Defects:
    """Those of one module, by name."""

    by_name: dict[str, Defect] = field(default_factory=dict)

    def seed(self, scenario: Scenario, because: str) -> Callable[[Break], Break]:
        """Registers a function that breaks something."""

        def seeded(function: Break) -> Break:
            self.by_name[function.__name__] = Defect(function, scenario, because)
            return function

        return seeded

    def check(self, name: str, patch: pytest.MonkeyPatch) -> None:
        """Raises AssertionError where nobody notices the defect of that name."""
        defect = self.by_name[name]
        defect.scenario.prepare()
        options = defect.apply(patch) or {}
        said = defect.scenario.first_trouble(**options)
        assert re.search(defect.because, said), f"nobody notices {name}: {said[:500]}"
