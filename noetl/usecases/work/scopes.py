"""What the templates and the code of a command see: the names in its row, and the whole context for
code that asks."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.evolve import replay
from noetl.engine.names import StepNames
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.expressions.scope import bare_names, layered, of_step
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import loaded
from noetl.facts.secret import Keychain
from noetl.pipeline.model import Names
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.snapshots import stored_state


def names(rt: Runtime, plan: Plan, command: CommandRow, iteration: JsonMap | None = None) -> Names:
    """What the command's templates see, from the context in its row."""
    context = command.context
    around = scope_around(rt, context)
    steps = {
        name: of_step(view.get("result"), view.get("results") or {})
        for name, view in context["steps"].items()
    }
    return Names(
        workload=context["workload"],
        ctx=context["ctx"],
        args=context["args"],
        steps=steps,
        builtins={
            **_bare_around(around, iteration),
            "execution_id": command.execution_id,
            "job": {"uuid": command.execution_id, "execution_id": command.execution_id},
            "env": rt.env,
            "keychain": Keychain(plan.net.keychain, command.execution_id, rt.seal),
        },
        iter=iteration or around or scope_of_caller(context),
    )


def scope_of_caller(context: JsonMap) -> JsonMap | None:
    """What `iter` is outside of the playbook's own loops: where an iteration called it, its
    `parent`."""
    return {"parent": context["caller"]} if "caller" in context else None


def scope_around(rt: Runtime, context: JsonMap) -> JsonMap | None:
    """The scope of the iteration, of several steps, that the command's step is a part of."""
    if "iteration" not in context:
        return None
    scope: JsonMap = loaded(context["iteration"], rt.load)
    return scope


def _bare_around(around: JsonMap | None, iteration: JsonMap | None) -> JsonMap:
    """What an iteration of one step reads bare of the one around it: what it has no name for
    itself."""
    if around is None or iteration is None:
        return {}
    own = bare_names(iteration)
    return {name: value for name, value in bare_names(around).items() if name not in own}


def whole_context(rt: Runtime, command: CommandRow) -> Mapping[str, Json]:
    """All that a template could see, as of the version that the command was issued at."""
    with rt.store.read() as tx:
        state = _state_at(tx, command.execution_id, int(command.context["everything"]))
    steps = {name: result.value for name, result in StepNames(state.steps).items()}
    view = layered(
        {"workload": state.workload, "ctx": state.ctx, "vars": state.ctx, "args": command.context["args"]},
        {"execution_id": state.execution_id, "steps": steps},
        steps,
        command.context["args"],
        state.ctx,
        state.workload,
    )
    return dict(view)


def _state_at(tx: Transaction, execution_id: str, version: int) -> State:
    state = stored_state(tx, execution_id)
    if state.version > version:
        state = State(execution_id)
    events = tx.events.read(execution_id, after=state.version)
    return replay(state, (event for event in events if event.version <= version))
