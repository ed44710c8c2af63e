"""The corpus: every playbook does what it says, in this process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.facts.events import Event
from noetl.net.model import KindInfo, Net
from noetl.usecases import catalog, inspect
from noetl.usecases.runtime import Runtime
from tests.budget import budget

from .corpus import Case, cases, differences
from .explained import unexplained
from .foreseen import contradictions
from .running import head, ran

_numbers = count(1)
#: Those that run once more with what they hand on kept elsewhere.
AGAIN = [case for case in cases() if case.expected["status"] is not None]
AGAIN = AGAIN[:: budget("NOETL_TEST_CASES_APART", quick=24, full=6, long=1)]
#: That the workload names the server of the tests.
_TAKES_WEB = re.compile(r"\bweb:")


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
    payload = {**({"web": web} if "web" in compiled.net.workload else {}), **case.payload}
    events = _events_as_expected(rt, top, case, payload, expected)
    # Nor anything that its plan had ruled out.
    assert not list(contradictions(compiled.net, payload, case.overrides, events))
    assert not list(_untold(compiled.net, rt.kinds, events))
    assert not list(unexplained(compiled.net, events))


@pytest.mark.full("the corpus a second time")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in AGAIN])
def test_a_run_says_the_same_whatever_is_kept_by_reference(
    case: Case, rt_by_reference: Runtime, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    payload = {**({"web": web} if _TAKES_WEB.search(case.body) else {}), **case.payload}
    expected = {key: value for key, value in case.expected.items() if key != "problems"}
    _events_as_expected(rt_by_reference, head(f"corpus/{next(_numbers)}"), case, payload, expected)


def _events_as_expected(
    rt: Runtime, top: str, case: Case, payload: dict[str, Any], expected: Mapping[str, Any]
) -> list[Event]:
    """Those of an execution, which has ended as it should."""
    for path, body in case.others:
        catalog.register(rt, head(path) + body, f"{path}.yaml")
    execution_id = ran(rt, top + case.body, payload, case)
    events = inspect.events(rt, execution_id)
    fired = [one.draft.step for one in events if one.fact.type == "step.scheduled"]
    found = {**inspect.report(rt, execution_id).as_json(), "path": fired}
    assert not list(differences(expected, found)), found["error"]
    return events


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
