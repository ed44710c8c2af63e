"""Small nets, written by hand: the engine is tested without the language in front of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from noetl.engine.plan import Plan
from noetl.net.model import Arc, Failure, Net, Task, Transition


def task(name: str = "task_0", kind: str = "python", **config: Any) -> Task:
    return Task(name, kind, config)


def step(
    name: str, *targets: str | Arc, tool: bool = True, inclusive: bool = True, **more: Any
) -> Transition:
    """A step with a python task (unless `tool` is false) and arcs to `targets`."""
    arcs = tuple(
        target if isinstance(target, Arc) else Arc(f"{name}->{target}", name, target) for target in targets
    )
    return Transition(
        name,
        tasks=(task(),) if tool else (),
        arcs=arcs,
        router="inclusive" if inclusive else "exclusive",
        queue="python",
        **more,
    )


def arc(source: str, target: str, when: Any = None, *, boundary: bool = False, **more: Any) -> Arc:
    return Arc(f"{source}->{target}", source, target, when, boundary, **more)


def plan(*steps: Transition, failure: Failure | None = None, **more: Any) -> Plan:
    """`failure` is that of the execution, and of the steps that have none of their own."""
    if failure is not None:
        more["failure"] = failure
        steps = tuple(one if one.failure != Failure() else replace(one, failure=failure) for one in steps)
    return Plan(Net("test", "tests/test", steps[0].name, steps, **more))
