"""Compiled nets as rows: `playbook_step` and `playbook_arc`."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.model import Net
from noetl.projection.tables import ProjectionRow


def net_rows(digest: str, net: Net) -> Iterator[ProjectionRow]:
    """The steps and arcs of a net, in document order."""
    for position, step in enumerate(net.transitions):
        yield ProjectionRow(
            "playbook_step",
            {
                "digest": digest,
                "step": step.name,
                "position": position,
                "description": step.description,
                "tasks": [{"name": task.name, "kind": task.kind} for task in step.tasks],
                "queue": step.queue,
                "loop_mode": step.loop.mode if step.loop else None,
                "join_mode": step.join.mode,
                "line": step.line or None,
            },
        )
    for position, arc in enumerate(net.arcs.values()):
        yield ProjectionRow(
            "playbook_arc",
            {
                "digest": digest,
                "arc_id": arc.id,
                "position": position,
                "source": arc.source,
                "target": arc.step,
                "guard": arc.when,
                "line": arc.line or None,
            },
        )
