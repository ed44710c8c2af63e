"""The rules of an admission, with what they read. The log has the rule that matched; those before
it did not hold, and what they read is found in the state of that moment."""

from __future__ import annotations

from typing import Final

from noetl.engine.inputs import Inputs
from noetl.engine.names import step_names
from noetl.expressions import values_read
from noetl.facts.events import AdmitEvaluated, Event
from noetl.facts.json import JsonMap
from noetl.history.accounts import Asked
from noetl.history.evidence import Evidence, asked
from noetl.net.model import AdmitRule, Template, Transition

#: What a rule that matched said.
ADMITTED: Final = "admitted"
DENIED: Final = "denied"
#: What rules read that the state does not hold.
_ELSEWHERE: Final = frozenset({"env", "keychain", "now"})


def rules_asked(here: Evidence, step: str, tokens: tuple[str, ...]) -> tuple[Asked, ...]:
    """The rules that were asked when the last admission of `tokens` was decided, the one that
    matched last. Empty where there was none."""
    judged = [event for event in here.of_step.get(step, ()) if _judges(event, tokens)]
    if not judged or not isinstance(fact := judged[-1].fact, AdmitEvaluated):
        return ()
    matched = asked(fact.when, fact.names, ADMITTED if fact.allow else DENIED)
    before = _rules_before(here.plan.step(step), fact)
    if not before:
        return (matched,)
    names = _names(here, step, judged[-1])
    missed = (asked(str(rule.when), _read(rule.when, names), "did not hold") for rule in before)
    return (*missed, matched)


def _judges(event: Event, tokens: tuple[str, ...]) -> bool:
    return isinstance(event.fact, AdmitEvaluated) and event.fact.token in tokens


def _rules_before(step: Transition, fact: AdmitEvaluated) -> tuple[AdmitRule, ...]:
    """The rules in front of the one that matched."""
    rules = step.admit.rules if step.admit else ()
    whens = [(None if rule.when is None else str(rule.when), rule.allow) for rule in rules]
    matched = (fact.when, fact.allow)
    return rules[: whens.index(matched)] if matched in whens else ()


def _names(here: Evidence, step: str, judged: Event) -> JsonMap:
    """What templates of the step saw when `judged` was decided."""
    state, fact = here.before_admission[judged.version], judged.fact
    arrival = here.arrivals.get(fact.token) if isinstance(fact, AdmitEvaluated) else None
    args = arrival.token.args if arrival else {}
    return step_names(state, Inputs(now=judged.recorded_at), here.plan.step(step), args)


def _read(when: Template, names: JsonMap) -> JsonMap:
    if not isinstance(when, str):
        return {}
    found = values_read(when, names, guard=True)
    return {name: value for name, value in found.items() if name.partition(".")[0] not in _ELSEWHERE}
