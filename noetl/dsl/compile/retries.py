"""`retry` of tasks and steps: a policy with one rule, which is asked after errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl import expressions
from noetl.dsl.compile.context import Context, PipelineSite
from noetl.dsl.compile.policies import ATTEMPTS, attempts_at, seconds_at
from noetl.dsl.document import TaskRetry
from noetl.dsl.problems import Path
from noetl.errors import TemplateError
from noetl.net.model import Directive, Rule, Template

_SUCCEEDED: Final = "{{ outcome.status == 'ok' }}"
_FAILED: Final = "{{ outcome.status == 'error' }}"
#: What is there after a success, too.
_OF_SUCCESSES: Final = frozenset({"result", "response", "outcome", "output"})


def compile_retry(
    context: Context, said: int | str | TaskRetry, path: Path, site: PipelineSite
) -> tuple[Rule, ...]:
    """The rules that a `retry`, which stands at `path`, means."""
    retry = said if isinstance(said, TaskRetry) else TaskRetry(attempts=said)
    at = {key: (*path, key) if retry is said else path for key in ("attempts", "delay", "jitter", "when")}
    default = Directive("retry", backoff="fixed")
    then = Directive(
        "retry",
        attempts=attempts_at(context, retry.attempts, at["attempts"], default.attempts, ATTEMPTS),
        backoff=retry.backoff or default.backoff,
        delay=default.delay if retry.delay is None else seconds_at(context, retry.delay, at["delay"]),
        jitter=default.jitter if retry.jitter is None else seconds_at(context, retry.jitter, at["jitter"]),
    )
    for key, value in (("attempts", then.attempts), ("delay", then.delay), ("jitter", then.jitter)):
        context.use(at[key], value, site.step)
    context.use(at["when"], retry.when, site.step, guard=True)
    return tuple(_rules(retry.when, then))


def _rules(when: bool | str | None, then: Directive) -> Iterator[Rule]:
    if when is None or isinstance(when, bool):
        yield Rule(when is not False and _FAILED, then)
    elif asks_of_successes(when):
        yield Rule(when, then)
    elif (inner := expressions.inside(when)) is not None:
        yield Rule(f"{{{{ outcome.status == 'error' and ({inner}) }}}}", then)
    else:
        yield Rule(_SUCCEEDED, Directive())
        yield Rule(when, then)


def asks_of_successes(when: Template) -> bool:
    """Whether a guard reads what an attempt came to, besides its error."""
    try:
        used = expressions.names_used(when, guard=True)
    except TemplateError:
        # A check reports it where it stands.
        return False
    return any(chain[0] in _OF_SUCCESSES and chain[1:2] != ("error",) for chain in used)
