"""Random playbooks of the classic dialect: answered, and the same as their canonical form."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.dsl import Code, compile_playbook
from noetl.net.codec import same_net
from noetl.net.model import KindInfo
from tests.budget import examples

KINDS = {kind: KindInfo(kind, kind) for kind in ("noop", "http", "python")}
HEAD: dict[str, Any] = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "p", "path": "p"},
}
STEPS = ("a", "b", "c")

guards = st.sampled_from(
    [
        *(True, False, "x > 1", "{{ result.n }}", "{{ event.name == 'loop.done' }}", "{{ ctx.n or x }}"),
        *("{{ event.name == 'step.exit' }}", "{{ outcome.status == 'error' }}", "{{ ctx.n }}"),
    ]
)
values = st.sampled_from(
    [1, None, "text", "{{ result.n }}", "{{ data.rows }}", "{{ ctx.n + 1 }}", ["{{ x }}"]]
)
names = st.dictionaries(st.sampled_from(["n", "m", "ctx.o", "step.p", "data"]), values, max_size=3)


def some(required: dict[str, Any], **optional: Any) -> Any:
    return st.fixed_dictionaries(required, optional=optional)


def one_or_more(form: Any, **how: Any) -> Any:
    return form | st.lists(form, min_size=1, max_size=2, **how)


kinds = st.sampled_from(list(KINDS))
tools = some({"kind": kinds}, name=st.sampled_from(["t", "sink", "vars"]), input=names, set=names)
sinks = one_or_more(tools | some({"tool": kinds | tools}, args=names))
targets = st.sampled_from(STEPS) | some({"step": st.sampled_from(STEPS)}, when=guards, args=names, set=names)
thens = one_or_more(some({}, next=one_or_more(targets), set=names, sink=sinks))
retry_thens = some(
    {},
    max_attempts=st.integers(1, 9),
    delay=st.sampled_from([0, "2s"]),
    backoff=st.sampled_from(["fixed", "exponential"]),
    next_call=some({}, params=names, args=names),
    collect=some({}, path=st.just("a.b"), strategy=st.sampled_from(["append", "merge"])),
    per_iteration=some({}, sink=sinks),
)
retries = one_or_more(some({}, when=guards, stop_when=guards, then=retry_thens))
tasks = one_or_more(
    some({"kind": kinds}, name=st.sampled_from("tuvw"), sink=sinks, retry=retries),
    unique_by=lambda task: task.get("name"),
)
routers = one_or_more(targets) | some(
    {"arcs": st.lists(targets, max_size=3)}, spec=some({}, mode=st.sampled_from(["inclusive", "exclusive"]))
)
steps = some(
    {"tool": tasks},
    loop=st.just({"in": [1, 2], "iterator": "i"}),
    vars=names,
    case=st.lists(some({"then": thens}, when=guards), max_size=2),
    sink=sinks,
    retry=retries,
    set=names,
    next=routers,
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_what_is_classic_is_answered_and_means_its_canonical_form(body: dict[str, Any]) -> None:
    workflow = [{"step": "a", **body}, {"step": "b", "next": "c"}, {"step": "c", "tool": {"kind": "noop"}}]
    text = yaml.safe_dump({**HEAD, "workflow": workflow}, sort_keys=False)
    classic = compile_playbook(text, file="p.yaml", kinds=KINDS)
    for problem in classic.problems:
        assert problem.line >= 1
        assert problem.path, problem
    if classic.net is None:
        return
    canonical = compile_playbook(json.dumps(classic.source.data), file="p.yaml", kinds=KINDS)
    assert canonical.net is not None, canonical.problems
    assert same_net(canonical.net, classic.net)
    assert Code.DEPRECATED not in {problem.code for problem in canonical.problems}
