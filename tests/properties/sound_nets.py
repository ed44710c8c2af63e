"""Random small nets, and all that the engine itself can make of one: every order in which runs end,
every outcome, every value of a guard."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from noetl.engine.decide import decide
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Admission, AdmitRule, Arc, Join, Net, Task, Transition
from noetl.testing import START

_JOINS = (Join(), Join(), Join(), Join("all"), Join("all"), Join("any"), Join("first"), Join("count", 2))
_COUNTS = (Join("tokens", 2), Join("tokens", 3), Join("tokens", 1))
_CANCELS = (Join("first", cancel_rest=True), Join("auto", cancel_rest=True))
_INPUTS = Inputs(now=START)


@st.composite
def sound_nets(draw: st.DrawFn, *, most: int = 7) -> Net:
    """Up to `most` steps: arcs forwards, some back, with guards that are free, of all routers and
    joins. Steps without tasks have no guards and lead forwards, so that a turn ends."""
    size = draw(st.integers(3, most))
    back = draw(st.booleans())
    counting = draw(st.integers(0, 3)) == 0
    steps = []
    for number in range(size):
        instant = draw(st.sampled_from([False, False, False, True]))
        low = 0 if back and not instant else number + 1
        others = [one for one in range(low, size) if one != number or back]
        least = min(2 - min(number, 1), len(others))
        some = st.lists(st.sampled_from(others), min_size=least, max_size=3, unique=True)
        targets = draw(some) if others else []
        arcs = tuple(
            _arc(draw, number, target, instant=instant, counting=counting and not back) for target in targets
        )
        joins = (*_JOINS, *_CANCELS) if draw(st.integers(0, 3)) == 0 else _JOINS
        joins = (*joins, *_COUNTS) if counting else joins
        steps.append(
            Transition(
                f"s{number}",
                () if instant else (Task("t0", "python"),),
                arcs,
                draw(st.sampled_from(["exclusive", "inclusive", "inclusive", "first"])),
                admit=_admission(number, draw, back=back),
                join=draw(st.sampled_from(joins)),
                terminate="completed" if counting and draw(st.integers(0, 5)) == 0 else None,
            )
        )
    return Net("random", "tests/random", "s0", tuple(steps))


def _arc(draw: st.DrawFn, source: int, target: int, *, instant: bool, counting: bool) -> Arc:
    guard = None if instant else draw(st.sampled_from([None, None, "own", "shared", "opposite"]))
    when = {
        None: None,
        "own": f"{{{{ ctx.g{source}_{target} }}}}",
        "shared": f"{{{{ ctx.g{source} }}}}",
        "opposite": f"{{{{ not ctx.g{source} }}}}",
    }
    boundary = guard is not None and draw(st.integers(0, 3)) == 0
    times = draw(st.sampled_from([1, 1, 1, 2, 3])) if counting else 1
    return Arc(f"s{source}->s{target}", f"s{source}", f"s{target}", when[guard], boundary, times=times)


def _admission(number: int, draw: st.DrawFn, *, back: bool) -> Admission | None:
    if draw(st.integers(0, 11)) != 0:
        return None
    rules = (AdmitRule(f"{{{{ ctx.a{number} }}}}", True), AdmitRule(None, False))
    # What admission passes over in a cycle goes round in one turn, without an end.
    return Admission(rules, draw(st.sampled_from(["skip", "pending", *([] if back else ["pass", "fail"])])))


@dataclass
class Played:
    """What the engine can come to. `is_whole`: all of it was looked at."""

    stuck: set[str] = field(default_factory=set)
    fired: set[str] = field(default_factory=set)
    endless: bool = False
    is_whole: bool = True
    states: int = 0


def play_all(net: Net, *, states: int = 200, most: int = 9) -> Played:
    """Every state that decisions can lead to, where there are at most so many, and none with more
    than `most` tokens and runs."""
    played, plan = Played(), Plan(net)
    first = evolve(initial_state("1"), Draft(e.Requested("tests/random", 1, "d", {}, {})))
    seen: dict[Any, State] = {}
    edges: dict[Any, list[Any]] = {}
    ends: set[Any] = set()
    waiting: list[tuple[Any, State]] = []

    def reach(state: State, drafts: tuple[Draft, ...]) -> Any:
        played.fired |= {one.step or "" for one in drafts if isinstance(one.fact, e.StepScheduled)}
        stuck = {one.step or "" for one in drafts if isinstance(one.fact, e.JoinUnsatisfied)}
        played.stuck |= stuck
        key = "end" if stuck or state.ended else _key(state)
        if key == "end":
            ends.add(key)
        elif len(state.tokens) + len(state.runs) > most or len(seen) >= states:
            played.is_whole = False
        elif key not in seen:
            seen[key] = state
            waiting.append((key, state))
        return key

    for flags in _flags(net, None):
        begun = _decide(plan, replace(first, ctx=flags))
        if begun is not None:
            reach(*begun)
    while waiting and played.is_whole:
        key, state = waiting.pop()
        edges[key] = [reach(*made) for made in _follow(plan, net, state)]
    played.states = len(seen)
    played.endless = played.is_whole and _is_endless(seen, edges, ends)
    return played


def _is_endless(seen: dict[Any, State], edges: dict[Any, list[Any]], ends: set[Any]) -> bool:
    good = set(ends)
    while more := {key for key, to in edges.items() if key not in good and good.intersection(to)}:
        good |= more
    return bool(seen.keys() - good)


def _follow(plan: Plan, net: Net, state: State) -> Iterator[tuple[State, tuple[Draft, ...]]]:
    for run in state.runs.values():
        for fact in (e.StepDone(), e.StepFailed(ErrorInfo("client_error", "no"))):
            for flags in _flags(net, run.step):
                ended = evolve(replace(state, ctx=flags), Draft(fact, step=run.step, run_id=run.id))
                made = _decide(plan, ended)
                if made is not None:
                    yield made
    if any(one.denied_at is not None for one in state.tokens.values()):
        for flags in _flags(net, None):
            made = _decide(plan, evolve(state, Draft(e.CtxPatched(flags, "patch"))))
            if made is not None:
                yield made


def _decide(plan: Plan, state: State) -> tuple[State, tuple[Draft, ...]] | None:
    """The next turn; None where a branch fails, which is an end that is reported."""
    decision = decide(plan, state, _INPUTS)
    if any(isinstance(one.fact, e.NextEvaluated) and one.fact.failure for one in decision.drafts):
        return None
    return decision.after, tuple(decision.drafts)


def _flags(net: Net, step: str | None) -> Iterator[dict[str, Any]]:
    """All values of what the guards of a step read, and of what admissions read."""
    arcs = net.steps[step].arcs if step is not None else ()
    names = {str(arc.when)[:-3].rpartition("ctx.")[2] for arc in arcs if arc.when is not None}
    names |= {f"a{index}" for index, one in enumerate(net.transitions) if one.admit is not None}
    for values in itertools.product((False, True), repeat=len(names)):
        yield dict(zip(sorted(names), values, strict=True))


def _key(state: State) -> Any:
    """The same for states that go on in the same way."""
    alive = [*state.tokens, *state.runs]
    rounds = {step: one.number for step, one in state.rounds.items()}
    spots = tuple(
        (one.token.arc, max(one.token.round - rounds.get(one.token.step, 0), 0), one.denied_at is not None)
        for one in state.tokens.values()
    )
    lived = tuple(
        (step, tuple(sorted(one.arrived)), tuple(key in one.outstanding for key in alive))
        for step, one in sorted(state.rounds.items())
    )
    return spots, tuple(run.step for run in state.runs.values()), lived
