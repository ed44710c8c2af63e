"""The corpus of the canonical dialect: every playbook does what it says, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.dsl.compiler import compile_playbook
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start

from .corpus import Case, cases, differences
from .foreseen import contradictions
from .web import serving

PATIENCE_S = 20.0

_numbers = count(1)


#: Bytes of JSON that the log takes: of everything, and of nothing but numbers and the like.
INLINE = {"inline": 1 << 30, "by_reference": 1}


@pytest.fixture(scope="module", params=INLINE)
def rt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A run says the same whatever is kept by reference."""
    settings = Settings(
        home=tmp_path_factory.mktemp("home"),
        allow_private_networks=True,
        inline_bytes=INLINE[request.param],
    )
    with bootstrap.local(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_a_playbook_does_what_it_says(
    case: Case, rt: Runtime, web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files that playbooks name by themselves are made here.
    monkeypatch.chdir(tmp_path)
    head = _head(f"corpus/{next(_numbers)}")
    compiled = compile_playbook(head + case.body, file="test.yaml", kinds=rt.kinds)
    expected = dict(case.expected)
    if (codes := expected.pop("problems", None)) is not None:
        assert [problem.code.value for problem in compiled.problems] == codes
    if expected["status"] is None:
        assert compiled.net is None
        return
    assert compiled.net is not None, compiled.problems
    for path, body in case.others:
        catalog.register(rt, _head(path) + body, f"{path}.yaml")
    payload = {**({"web": web} if "web" in compiled.net.workload else {}), **case.payload}
    execution_id = _ran(rt, head + case.body, payload, case)
    events = inspect.events(rt, execution_id)
    fired = [e.draft.step for e in events if e.fact.type == "step.scheduled"]
    found = {**inspect.report(rt, execution_id).as_json(), "path": fired}
    assert not list(differences(expected, found)), found["error"]
    # Nor anything that its plan had ruled out.
    assert not list(contradictions(compiled.net, payload, case.overrides, events))


def _head(path: str) -> str:
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: test, path: {path}}}\n"


def _ran(rt: Runtime, text: str, payload: dict[str, Any], case: Case) -> str:
    """The execution, which has ended."""
    row = catalog.register(rt, text, "test.yaml")
    execution_id = start(rt, StartRequest(row.path, row.version, payload, case.overrides))
    ends = time.monotonic() + PATIENCE_S
    while inspect.execution(rt, execution_id).status not in ENDED:
        assert time.monotonic() < ends, inspect.state_view(rt, execution_id)
        time.sleep(0.002)
    return execution_id
