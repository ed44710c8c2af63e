"""What events of tokens change: where they wait, which runs consumed them, and the rounds of
joins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from noetl.engine.rounds import inherit
from noetl.engine.runs import end_run, place_of, remember
from noetl.engine.state import Round, Run, State, StepRecord, Waiting
from noetl.facts import events as e
from noetl.facts.outcome import ErrorInfo


def fold_tokens(
    state: State,
    fact: e.AdmitEvaluated | e.StepScheduled | e.StepSkipped | e.NextEvaluated | e.JoinUnsatisfied,
    draft: e.Draft,
) -> State:
    match fact:
        case e.AdmitEvaluated():
            return _admit(state, fact)
        case e.StepScheduled():
            return _schedule(state, fact, draft)
        case e.StepSkipped():
            return _skip(state, fact, draft)
        case e.NextEvaluated():
            return _route(state, fact, draft)
        case e.JoinUnsatisfied():
            state = _drop_tokens(state, fact.tokens, ())
            return _fail_branch(state, fact.error, fact.stops)
        case _:
            assert_never(fact)


def put_tokens(state: State, tokens: Iterable[e.Token]) -> State:
    waiting = dict(state.tokens)
    rounds = state.rounds
    for token in tokens:
        if not token.absorbed:
            waiting[token.id] = Waiting(token)
        elif token.step in rounds:
            current = rounds[token.step]
            rounds = {**rounds, token.step: replace(current, arrived=current.arrived | {token.arc})}
    return replace(state, tokens=waiting, rounds=rounds)


def _drop_tokens(state: State, ids: Iterable[str], heirs: Iterable[str]) -> State:
    gone = set(ids)
    left = {token_id: waiting for token_id, waiting in state.tokens.items() if token_id not in gone}
    return inherit(replace(state, tokens=left), gone, heirs)


def _admit(state: State, fact: e.AdmitEvaluated) -> State:
    if fact.allow or fact.token not in state.tokens:
        return state
    waiting = replace(state.tokens[fact.token], denied_at=fact.ctx_version)
    return replace(state, tokens={**state.tokens, fact.token: waiting})


def _schedule(state: State, fact: e.StepScheduled, draft: e.Draft) -> State:
    step, run_id = place_of(draft)
    arcs = frozenset(state.tokens[token].token.arc for token in fact.tokens if token in state.tokens)
    state = _drop_tokens(state, fact.tokens, (run_id,))
    if fact.round:
        alive = frozenset(state.tokens) | frozenset(state.runs)
        state = replace(state, rounds={**state.rounds, step: Round(fact.round, arcs, alive)})
    record = state.steps.get(step, StepRecord())
    run = Run(run_id, step, fact.args, state.version, final=fact.final)
    return replace(
        state,
        runs={**state.runs, run_id: run},
        steps={**state.steps, step: replace(record, runs=record.runs + 1, status="running")},
        final_ran=state.final_ran or fact.final,
    )


def _skip(state: State, fact: e.StepSkipped, draft: e.Draft) -> State:
    if (run := state.runs.get(draft.run_id or "")) is not None:
        return state if run.ended else end_run(state, replace(run, status="skipped"))
    state = _drop_tokens(state, fact.tokens, ())
    return remember(state, draft.step or "", "skipped")


def _route(state: State, fact: e.NextEvaluated, draft: e.Draft) -> State:
    step, run_id = place_of(draft)
    runs = {key: run for key, run in state.runs.items() if key != run_id}
    state = put_tokens(replace(state, runs=runs), fact.tokens)
    state = inherit(state, (run_id,), (token.id for token in fact.tokens if not token.absorbed))
    if fact.failure is None:
        return state
    record = state.steps[step]
    if record.status == "done":
        record = replace(record, status="failed", error=fact.failure)
        state = replace(state, steps={**state.steps, step: record})
    return _fail_branch(state, fact.failure, fact.stops)


def _fail_branch(state: State, error: ErrorInfo, stops: bool) -> State:
    return replace(state, failures=(*state.failures, error), stopping=state.stopping or stops)
