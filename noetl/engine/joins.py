"""Joins: when the tokens before a step enable it, and which round of a join a token counts in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import Round, State, Waiting
from noetl.facts.events import Token
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.reference import opened
from noetl.net.model import Transition


@dataclass(frozen=True, slots=True)
class Enabled:
    """Tokens that fire a step together. `round` is 0 where the join has no rounds."""

    step: str
    tokens: tuple[Token, ...]
    round: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(token.id for token in self.tokens)

    def args(self, inputs: Inputs) -> JsonMap:
        """The tokens' args, merged in order of arrival."""
        merged: dict[str, Json] = {}
        for token in self.tokens:
            for name, value in token.args.items():
                merged[name] = _merge(merged[name], value, inputs) if name in merged else value
        return merged


def _merge(base: Json, over: Json, inputs: Inputs) -> Json:
    """`over` on top of `base`. What is kept by reference is opened only where both may be
    mappings."""
    if inputs.load is None or not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return deep_merge(base, over)
    base, over = opened(base, inputs.load), opened(over, inputs.load)
    return inputs.hold(deep_merge(base, over))


def find_enabled(plan: Plan, state: State) -> Iterable[Enabled]:
    """What can fire now, in order of arrival. Tokens that admission denied count only once ctx
    changed, and those before the final step wait for the end of everything else."""
    seen = {plan.net.final_step}
    for waiting in state.tokens.values():
        name = waiting.token.step
        if name not in seen:
            seen.add(name)
            yield from _at_step(plan, state, plan.step(name), tokens_at(state, name))


def tokens_at(state: State, step: str) -> list[Waiting]:
    """Tokens that wait before `step`, in order of arrival."""
    return [waiting for waiting in state.tokens.values() if waiting.token.step == step]


def _ready(state: State, waiting: Waiting) -> bool:
    return waiting.denied_at is None or waiting.denied_at < state.ctx_version


def _at_step(plan: Plan, state: State, step: Transition, waiting: list[Waiting]) -> Iterable[Enabled]:
    match step.join.mode:
        case "all":
            return _all(plan, state, step, waiting)
        case "first" | "count":
            return _find_counted(plan, state, step, waiting)
        case "auto" if plan.is_or_join(step):
            if not _ready(state, waiting[0]) or can_still_come(plan, state, step.name):
                return ()
            return [Enabled(step.name, tuple(one.token for one in waiting))]
        case _:
            return [Enabled(step.name, (one.token,)) for one in waiting if _ready(state, one)]


def _all(plan: Plan, state: State, step: Transition, waiting: list[Waiting]) -> Iterable[Enabled]:
    first: dict[str, Waiting] = {}
    for one in waiting:
        first.setdefault(one.token.arc, one)
    if len(first) == len(plan.net.incoming[step.name]) and _ready(state, waiting[0]):
        yield Enabled(step.name, tuple(one.token for one in first.values()))


def _find_counted(plan: Plan, state: State, step: Transition, waiting: list[Waiting]) -> Iterable[Enabled]:
    number = min(one.token.round for one in waiting)
    current = state.rounds.get(step.name)
    if current is not None and not _over(plan, state, step.name, current):
        return
    needed = 1 if step.join.mode == "first" else step.join.count
    of_round = [one for one in waiting if one.token.round == number]
    if len(of_round) >= needed and _ready(state, of_round[0]):
        yield Enabled(step.name, tuple(one.token for one in of_round), number)


def can_still_come(plan: Plan, state: State, join: str) -> bool:
    """Whether a live token or run elsewhere can still reach `join`."""
    reach = plan.reach[join]
    if any(run.step in reach.runs and not run.final for run in state.runs.values()):
        return True
    return any(waiting.token.step in reach.tokens for waiting in state.tokens.values())


def _over(plan: Plan, state: State, join: str, current: Round) -> bool:
    """Whether every branch of the round has come or died."""
    if len(current.arrived) == len(plan.net.incoming[join]):
        return True
    reach = plan.reach[join]
    for key in current.outstanding:
        if key in state.runs and state.runs[key].step in reach.runs:
            return False
        if key in state.tokens and state.tokens[key].token.step in reach.tokens:
            return False
    return True


def rest_of(plan: Plan, state: State, join: str, taken: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """(runs, tokens) that could still reach a join that just fired: what `cancel_rest`
    withdraws."""
    reach = plan.reach.get(join)
    if reach is None:
        return [], []
    runs = [run.id for run in state.runs.values() if run.step in reach.runs and not run.ended]
    waiting = (one.token for one in state.tokens.values() if one.token.id not in taken)
    tokens = [token.id for token in waiting if token.step in reach.tokens or token.step == join]
    return runs, tokens


def place_token(plan: Plan, state: State, token: Token) -> Token:
    """`token` with the round that it counts in, absorbed where that round has fired already."""
    step = plan.step(token.step)
    if step.join.mode not in ("first", "count"):
        return token
    current = state.rounds.get(step.name)
    base = 1
    if current is not None:
        base = current.number + 1
        if token.arc not in current.arrived and not _over(plan, state, step.name, current):
            return Token(token.id, token.arc, token.step, token.args, current.number, absorbed=True)
    earlier = sum(
        1 for one in tokens_at(state, step.name) if one.token.arc == token.arc and one.token.round >= base
    )
    return Token(token.id, token.arc, token.step, token.args, base + earlier)
