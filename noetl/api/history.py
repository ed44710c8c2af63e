"""`/api/executions/{id}/explain`, `/diff/{other}` and `/timeline`: why an execution went as it did,
in what another one differs, and what was when."""

from __future__ import annotations

from noetl.api.accounts import ComparisonView, ExplanationView, TimelineView
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import DiffPath, DiffQuery, ExecutionPath, ExplainQuery
from noetl.facts.json import Json
from noetl.history.shape import as_json, comparison_as_json, timeline_as_json
from noetl.usecases import history
from noetl.usecases.timeline import timeline as look_at_timeline

api = group("history", "/api/executions", "Why executions went as they did")


@api.get("/<execution_id>/explain", responses={200: ExplanationView})
def explain(path: ExecutionPath, query: ExplainQuery) -> Json:
    """Say why each step ran, did not run, or waits and for what

    With every guard, rule and policy that was asked: its expression, the values it read, and what
    came of it. With `step` of that step alone, and more of it.
    """
    return as_json(history.explain(services().rt, path.execution_id, query.step, query.version))


@api.get("/<execution_id>/diff/<other>", responses={200: ComparisonView})
def diff(path: DiffPath, query: DiffQuery) -> dict[str, Json]:
    """Say in what another execution differs from this one

    Playbook, inputs, path, guards, results, errors, durations: `a` is this one, `b` the other.
    """
    found = history.compare(services().rt, path.execution_id, path.other, query.limit)
    return comparison_as_json(found)


@api.get("/<execution_id>/timeline", responses={200: TimelineView})
def timeline(path: ExecutionPath) -> dict[str, Json]:
    """Say what each step and run was at every version, and when

    For a graph of the steps that moves with the versions of the log, beside bars over time: when
    each run waited for a worker, ran, and waited for something else. Of each step there are the
    newest 500 runs.
    """
    return timeline_as_json(look_at_timeline(services().rt, path.execution_id))
