"""The corpus: every playbook does what it says, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.facts.events import Event
from noetl.net.model import KindInfo, Net
from noetl.usecases import catalog, inspect
from noetl.usecases.runtime import Runtime

from .corpus import Case, cases, differences
from .explained import unexplained
from .foreseen import contradictions
from .running import head, ran

_numbers = count(1)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_a_playbook_does_what_it_says(
    case: Case, rt: Runtime, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files that playbooks name by themselves are made here.
    monkeypatch.chdir(tmp_path)
    top = head(f"corpus/{next(_numbers)}")
    compiled = compile_playbook(top + case.body, file="test.yaml", kinds=rt.kinds)
    expected = dict(case.expected)
    if (codes := expected.pop("problems", None)) is not None:
        assert [problem.code.value for problem in compiled.problems] == codes
    if expected["status"] is None:
        assert compiled.net is None
        return
    assert compiled.net is not None, compiled.problems
    for path, body in case.others:
        catalog.register(rt, head(path) + body, f"{path}.yaml")
    payload = {**({"web": web} if "web" in compiled.net.workload else {}), **case.payload}
    execution_id = ran(rt, top + case.body, payload, case)
    events = inspect.events(rt, execution_id)
    fired = [e.draft.step for e in events if e.fact.type == "step.scheduled"]
    found = {**inspect.report(rt, execution_id).as_json(), "path": fired}
    assert not list(differences(expected, found)), found["error"]
    # Nor anything that its plan had ruled out.
    assert not list(contradictions(compiled.net, payload, case.overrides, events))
    assert not list(_untold(compiled.net, rt.kinds, events))
    assert not list(unexplained(compiled.net, events))


def _untold(net: Net, kinds: Mapping[str, KindInfo], events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """Sections of outcomes that their tools do not tell of: `validate` would call them
    undefined."""
    told = {
        (step.name, task.name): {*(kinds[task.kind].sections or ()), "http"}
        for step in net.transitions
        for task in step.tasks
    }
    for event in events:
        extras = getattr(event.fact, "extras", {})
        place = (event.draft.step or "", getattr(event.fact, "task", ""))
        yield from ((f"{place}", section) for section in extras.keys() - told.get(place, extras.keys()))
