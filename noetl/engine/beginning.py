"""The beginning of an execution: its request evaluated, its first token."""

from __future__ import annotations

from dataclasses import replace

from noetl.engine.admission import find_wrong_defaults
from noetl.engine.granting import (
    admit_execution,
)
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.request import render_keychain, unread_keys
from noetl.engine.state import State
from noetl.engine.termination import finish
from noetl.engine.workload import render_ctx, render_workload
from noetl.errors import BadRequest, TemplateError
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.facts.warnings import Warned
from noetl.net.model import ENTRY


def begin(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.started or state.is_halted:
        return []
    if state.accepted is None:
        return [Draft(_evaluate(plan, state, inputs), dedup_key="evaluated")]
    if not state.accepted:
        return finish("failed", None, state.error)
    first = admit_execution(plan, state, inputs)
    if first is not None:
        return first
    token = e.Token(ENTRY, ENTRY, plan.net.entry)
    return [Draft(e.WorkflowStarted((token,)), dedup_key="started")]


def _evaluate(plan: Plan, state: State, inputs: Inputs) -> e.Evaluated:
    if inputs.source is not None and inputs.source.evaluated_at is not None:
        # The instant is no change.
        inputs = replace(inputs, now=inputs.source.evaluated_at)
    warnings: list[Warned] = [*unread_keys(plan, state.payload)] if state.payload else []
    try:
        workload = render_workload(plan.net, state, inputs, warnings)
    except TemplateError as error:
        return e.Evaluated(False, error=ErrorInfo("template", f"workload: {error.message}"))
    wrong = find_wrong_defaults(plan.net, workload)
    if wrong is not None:
        return e.Evaluated(False, error=wrong)
    try:
        ctx = render_ctx(plan.net, workload, state, inputs, warnings)
    except TemplateError as error:
        return e.Evaluated(False, error=ErrorInfo("template", f"ctx: {error.message}"))
    try:
        keychain = render_keychain(plan.net, state, inputs, workload, warnings)
    except (TemplateError, BadRequest) as error:
        kind = "template" if isinstance(error, TemplateError) else "client_error"
        return e.Evaluated(False, error=ErrorInfo(kind, error.message))
    return e.Evaluated(True, workload, warnings=tuple(warnings), keychain=keychain, ctx=ctx)
