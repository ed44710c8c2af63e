"""Lines of an explanation for people: all steps of an execution, or one step from close by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from noetl.cli.plan_steps import IN, Line, columns
from noetl.cli.run import explain as describe_error
from noetl.facts.task_names import find_task_name
from noetl.history.accounts import (
    Asked,
    Explanation,
    LoopAccount,
    RunAccount,
    StepAccount,
    TaskAccount,
    WaitAccount,
    Way,
)
from noetl.history.sentences import (
    say_cause,
    say_error,
    say_fate,
    say_loop,
    say_milliseconds,
    say_origin,
    say_policy,
    say_rule,
)

#: Indent of what is said of a step.
_DEEP: Final = "     "
_MOODS: Final = {
    "done": "plain",
    "running": "plain",
    "waiting": "warning",
    "failed": "bad",
    "cancelled": "quiet",
    "skipped": "quiet",
    "not_run": "quiet",
}


def overview(found: Explanation) -> Iterator[Line]:
    """All steps, each with the evidence that its sentence stands on."""
    yield _head(found)
    if found.error is not None:
        yield Line(describe_error(found.error, found.file), "plain")
    if found.retry is not None:
        yield Line(found.retry)
    yield from (Line(wait.text, "warning") for wait in found.waits)
    yield Line("")
    for number, one in enumerate(found.steps, 1):
        yield Line(f"{number:>3}  {one.step} · {_standing(one)}", "title")
        yield Line(_DEEP + one.why, _MOODS[one.standing])
        yield from (Line(_DEEP + IN + line.text, line.mood) for line in _evidence(one))


def close_up(found: Explanation) -> Iterator[Line]:
    """One step, with everything that is known of it."""
    yield _head(found)
    yield from (Line(wait.text, "warning") for wait in found.waits)
    for one in found.steps:
        place = f" · {found.file}:{one.line}" if found.file and one.line else ""
        yield Line("")
        yield Line(f"{one.step} · {_standing(one)}{place}", "title")
        yield Line(one.why, _MOODS[one.standing])
        yield from (Line(IN + line.text) for wait in one.waits[:1] for line in _rules(wait.rules))
        yield from _section("and waits for", _waits(one.waits[1:]))
        yield from _section("ways in", _ways(one.ways, _source))
        yield from _section("the way to it ended at", _ways(one.stopped_at, _both))
        yield from _section("dropped", _dropped(one))
        for run in reversed(one.runs):
            yield from _section(_run_title(run), _run(run))
        if (more := one.run_count - len(one.runs)) > 0:
            yield Line("")
            yield Line(f"{more} earlier runs are not shown.", "quiet")


def _head(found: Explanation) -> Line:
    playbook = f"{found.path}@{found.playbook_version}"
    return Line(f"{found.execution_id}  {playbook}  {found.status} at version {found.version}", "title")


def _standing(one: StepAccount) -> str:
    runs = [f"{one.run_count} runs"] if one.run_count > 1 else []
    spent = (
        [say_milliseconds(one.runs[-1].duration_ms)]
        if one.runs and one.runs[-1].duration_ms is not None
        else []
    )
    return " · ".join([one.standing.replace("_", " "), *runs, *spent])


def _section(title: str, content: Iterable[Line]) -> Iterator[Line]:
    found = list(content)
    if found:
        yield Line("")
        yield Line(title, "title")
        yield from (Line(IN + line.text, line.mood) for line in found)


# --- of all steps ---


def _evidence(one: StepAccount) -> Iterator[Line]:
    """What a step's sentence does not say: other ways in, rules, tasks that were tried again,
    iterations that failed, and the guards that were asked behind it."""
    if one.standing == "not_run" and len(one.ways) > 1:
        yield from _ways(one.ways, _source)
    if len(one.stopped_at) > 1:
        yield from _ways(one.stopped_at, _both)
    if one.waits and one.waits[0].kind == "join":
        yield from _ways(one.ways, _source)
    for number, wait in enumerate(one.waits):
        yield from _waits((wait,)) if number else _rules(wait.rules)
    for token in one.dropped[-1:]:
        yield from _rules(token.rules)
    for run in one.runs[-1:]:
        yield from _of_last_run(run)


def _of_last_run(run: RunAccount) -> Iterator[Line]:
    yield from _reuse(run)
    yield from _rules(run.admission)
    yield from (_task(task) for task in run.tasks if _is_telling(task))
    yield from _policies(run)
    if run.loop is not None:
        yield from _loop(run.loop)
    if run.status == "failed":
        yield from _children(run)
    yield from _ways([way for way in run.next if way.guard is not None], _target)


# --- of one step ---


def _dropped(one: StepAccount) -> Iterator[Line]:
    for token in one.dropped:
        yield Line(f"token {token.token}, version {token.version}: {token.why}")
        yield from (Line(IN + line.text, line.mood) for line in _rules(token.rules))


def _run_title(run: RunAccount) -> str:
    worker = [f"worker {run.worker}"] if run.worker else []
    spent = [say_milliseconds(run.duration_ms)] if run.duration_ms is not None else []
    begun = f"{run.scheduled_at:%Y-%m-%d %H:%M:%S} (version {run.version})"
    return " · ".join([f"run {run.run}", run.status, begun, *spent, *worker])


def _is_telling(task: TaskAccount) -> bool:
    return task.attempts > 1 or task.status == "failed" or task.reused is not None


def _run(run: RunAccount) -> Iterator[Line]:
    yield from (Line(say_cause(way)) for way in run.because)
    if run.handled:
        yield Line(f"it {run.handled}")
    yield from _rules(run.admission)
    yield from _reuse(run)
    if run.reason:
        yield Line(run.reason)
    yield from (_task(task) for task in run.tasks)
    yield from _policies(run)
    if run.loop is not None:
        yield from _loop(run.loop)
    yield from _children(run)
    if run.error is not None:
        yield Line(f"failed: {say_error(run.error)}", "bad")
    yield from _ways(run.next, _target)


# --- parts of both ---


def _ways(ways: Iterable[Way], place: Callable[[Way], str]) -> Iterator[Line]:
    """`place` says which end of an arc is not known already where the lines stand."""
    for way in ways:
        yield Line(f"{place(way)}: {say_fate(way)}", "plain" if way.fate == "taken" else "quiet")


def _source(way: Way) -> str:
    return "the entry" if way.source is None else f"from {way.source}"


def _target(way: Way) -> str:
    return f"→ {way.step}"


def _both(way: Way) -> str:
    return _target(way) if way.source is None else f"{way.source} → {way.step}"


def _rules(rules: Iterable[Asked]) -> Iterator[Line]:
    yield from (Line(say_rule(rule)) for rule in rules)


def _waits(waits: Iterable[WaitAccount]) -> Iterator[Line]:
    for wait in waits:
        yield Line(wait.text, "warning")
        yield from _rules(wait.rules)


def _reuse(run: RunAccount) -> Iterator[Line]:
    if run.reuse:
        yield Line(run.reuse)


def _task(task: TaskAccount) -> Line:
    name = f"task {task.task}" if find_task_name(task.task) else "its task"
    tries = f" after {task.attempts} attempts" if task.attempts > 1 else ""
    on = ", and the pipeline went on" if task.went_on else ""
    error = f"{on}; last error: {say_error(task.error)}" if task.error is not None else ""
    error += f", {say_origin(task.reused)}" if task.reused is not None else ""
    return Line(f"{name}: {task.status}{tries}{error}", "bad" if task.status == "failed" else "plain")


def _policies(run: RunAccount) -> Iterator[Line]:
    yield from (Line(say_policy(one)) for one in run.policies)
    if run.policies_more:
        yield Line(f"{run.policies_more} more rules of policies matched", "quiet")


def _children(run: RunAccount) -> Iterator[Line]:
    yield from (Line(f"called execution {child}") for child in run.children)
    if (more := run.child_count - len(run.children)) > 0:
        yield Line(f"called {more} earlier ones", "quiet")
    yield from (Line(text) for text in run.undone)


def _loop(loop: LoopAccount) -> Iterator[Line]:
    yield Line(say_loop(loop))
    yield from (Line(f"{one.count} cancelled: {one.reason}", "quiet") for one in loop.cancelled_for)
    rows = [([f"[{one.iteration}]", one.item or "", say_error(one.error)], "bad") for one in loop.failures]
    yield from columns(rows)
    if (more := loop.failed - len(loop.failures)) > 0:
        yield Line(f"{more} more iterations failed", "quiet")
