"""Executions to be explained and compared."""

from __future__ import annotations

from textwrap import dedent, indent

from noetl.history.accounts import Explanation, StepAccount
from noetl.history.compare import compare
from noetl.history.differences import Comparison
from noetl.testing import Simulation
from noetl.usecases import history


def playbook(workflow: str, root: str = "") -> str:
    """A whole playbook around the list of steps `workflow`; `root` holds further root keys."""
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"
    return f"{head}{dedent(root)}\nworkflow:\n{indent(dedent(workflow), '  ')}"


def explained(sim: Simulation, execution_id: str, version: int | None = None) -> dict[str, StepAccount]:
    """The accounts of all steps, by name."""
    return {one.step: one for one in explanation(sim, execution_id, version).steps}


def explanation(sim: Simulation, execution_id: str, version: int | None = None) -> Explanation:
    return history.explain(sim.rt, execution_id, version=version)


def why(sim: Simulation, execution_id: str, step: str) -> str:
    return explained(sim, execution_id)[step].why


def ended(sim: Simulation, **overrides: object) -> str:
    """The id of an execution that has come to rest."""
    return sim.run(None, **overrides).row.execution_id


def differences(sim: Simulation, one: str, other: str, most: int = 20) -> Comparison:
    return compare(sim.events(one), sim.events(other), most)
