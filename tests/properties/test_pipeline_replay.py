"""A pipeline that goes on from its log goes on as if it had never stopped, wherever it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.facts.events import ChildCall, ChildEnded, Draft
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.net.model import (
    Assignment,
    CollectPolicy,
    Directive,
    Failure,
    Loop,
    NextRequest,
    OlderRepeat,
    Repeat,
    Rule,
    Task,
)
from noetl.pipeline.fold import evolve, initial, replay
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import (
    Call,
    Finished,
    Later,
    Move,
    Names,
    PipelinePorts,
    PipelineProgress,
    PipelineSpec,
    Recorded,
    Sleep,
    Suspend,
    Suspension,
    Where,
)
from tests.budget import examples

NAMES = ("t0", "t1", "t2", "t3")

#: What goes wrong for good stands once among many: most pipelines should come to their third task.
GUARDS = st.sampled_from(
    [
        None,
        None,
        True,
        False,
        "{{ result.n is defined and result.n < 8 }}",
        "outcome.status == 'error'",
        "outcome.status == 'error'",
        "error.kind == 'timeout'",
        "_attempt < 2",
        "_attempt < 3",
        "ctx.a == 1",
        "{{ v is defined }}",
        "{{ 1 / 0 }}",
    ]
)
VALUES = st.sampled_from(
    [
        1,
        None,
        "text",
        "{{ result }}",
        "{{ _prev }}",
        "{{ ctx.a }}",
        "{{ v }}",
        "{{ [_task, _attempt, iter.x] }}",
    ]
    * 3
    + ["{{ 1 / 0 }}"]
)
ASSIGNMENTS = st.lists(
    st.builds(
        Assignment,
        st.sampled_from(["ctx", "iter", "step", "local"]),
        st.sampled_from(["a", "a.b", "a.b.c", "v"]),
        VALUES,
    ),
    max_size=3,
).map(tuple)


@st.composite
def directives(draw: st.DrawFn, position: int, end: int) -> Directive:
    do = draw(st.sampled_from(["continue", "continue", "retry", "retry", "retry", "jump", "break", "fail"]))
    # Forward only: a jump back without an end takes 10,000 tasks, which is another test's story.
    ahead = NAMES[position + 1 : end]
    if do == "jump" and not ahead:
        do = "continue"
    return Directive(
        do,
        attempts=draw(st.sampled_from([2, 3, 4, 5, "{{ 3 }}", "{{ nowhere }}"])),
        backoff=draw(st.sampled_from(["none", "fixed", "linear", "exponential"])),
        delay=draw(st.sampled_from([0, 0.5, 0.5, 1, 1, "2s", "PT2S", "never"])),
        jitter=draw(st.sampled_from([0, 0.25])),
        to=draw(st.sampled_from(ahead)) if do == "jump" else None,
        set=draw(ASSIGNMENTS),
    )


def back(to: str) -> Rule:
    """Jumps back once: from the first visit of the first task that comes to it."""
    turned = Assignment("ctx", f"turned_{to}", 1)
    return Rule(f"{{{{ ctx.turned_{to} is not defined }}}}", Directive("jump", to=to, set=(turned,)))


#: Of tasks behind the end of the pipeline proper.
AFTER = st.sampled_from(
    [
        True,
        True,
        "outcome.status == 'ok'",
        "event.name == 'call.error'",
        "{{ result.n is defined and result.n < 8 }}",
        "ctx.a == 1",
        "{{ v is defined }}",
        "{{ 1 / 0 }}",
    ]
)
#: Of nets of schema 1. What stands over a task's own inputs grows with every success.
THEN = st.sampled_from(
    [
        (),
        (
            Rule(
                "{{ result.n > 4 }}",
                Directive(set=(Assignment("local", "req.args", {"in": "{{ result.n }}"}),)),
            ),
        ),
        (Rule("{{ 1 / 0 }}", Directive()),),
    ]
)
LOOPS = st.builds(
    Loop,
    st.sampled_from([None, [], 7, ["a", "b", "c"], [1, 2], "{{ ctx.a }}", "{{ 1 / 0 }}"]),
    st.just("x"),
    failure=st.sampled_from([Failure(), Failure("best_effort"), Failure("best_effort", 1)]),
)


REPEATS = st.builds(
    Repeat,
    st.sampled_from(
        [
            (NextRequest(None, {"args": {"in": "{{ result.n }}"}}),),
            (
                NextRequest("{{ result.n > 6 }}", {"args": {"in": "again"}}),
                NextRequest("{{ result.n > 2 }}", {"args": {"in": "{{ [result.n, v] }}"}}),
            ),
            (NextRequest("{{ 1 / 0 }}"),),
        ]
    ),
    max=st.sampled_from([1, 3, 5, "{{ 4 }}"]),
    delay=st.sampled_from([0.0, 0.0, 0.5, 2.0, "never"]),
    backoff=st.sampled_from(["fixed", "exponential"]),
    collect=st.sampled_from(
        [
            None,
            CollectPolicy("n"),
            CollectPolicy("n", "replace", Assignment("ctx", "a", None)),
            CollectPolicy("", "merge"),
            CollectPolicy("nowhere"),
        ]
    ),
)


@st.composite
def each_of(draw: st.DrawFn, owner: str, after: Any) -> list[Task]:
    """None, one or two tasks that run after every call of `owner`: the first may pass over the
    second."""
    names = [f"{owner}.{number}" for number in range(draw(st.integers(0, 2)))]
    over = Rule("{{ result.n > 5 }}", Directive("jump", to=names[-1])) if names else None
    left = Rule("{{ result.n == 9 }}", Directive("break"))
    went_on = Rule(None, Directive("continue"))
    return [
        Task(
            name,
            "noop",
            args={"in": draw(VALUES), "page": "{{ data.n }}"},
            rules=(left, went_on) if name == names[-1] or over is None else (over, left, went_on),
            set=draw(ASSIGNMENTS),
            each_of=owner,
            after=None if after is None else True,
        )
        for name in names
    ]


@st.composite
def programs(draw: st.DrawFn) -> PipelineSpec:
    tasks = []
    proper = draw(st.sampled_from([4, 4, 4, 3, 2, 2, 1, 0]))
    for position, name in enumerate(NAMES):
        # No jump crosses the end of the pipeline proper.
        end, first = (proper, 0) if position < proper else (len(NAMES), proper)
        rules = draw(
            st.none()
            | st.just((back(NAMES[first]),))
            | st.lists(st.builds(Rule, GUARDS, directives(position, end)), min_size=1, max_size=4).map(tuple)
        )
        args = {"in": draw(VALUES)} if draw(st.booleans()) else {}
        after = draw(AFTER) if position >= proper else None
        loop = draw(LOOPS) if draw(st.integers(0, 3)) == 0 else None
        repeat = draw(REPEATS) if loop is None and draw(st.integers(0, 2)) == 0 else None
        then = draw(THEN) if loop is None and repeat is None else ()
        tasks.append(
            Task(
                name,
                "noop",
                args=args,
                rules=rules,
                set=draw(ASSIGNMENTS),
                line=position + 1,
                loop=loop,
                older=OlderRepeat("{{ req }}", then, merged=("req.args",)) if then else None,
                repeat=repeat,
                after=after,
            )
        )
        if repeat is not None:
            tasks += draw(each_of(name, after))
    parallel = draw(st.integers(0, 5)) == 0
    return PipelineSpec(
        tuple(tasks),
        Where("1", "s#1", "s", 0 if parallel else None),
        parallel_loop=parallel,
        reducers=frozenset({"a", "v", "a.b", "a.b.c"}),
    )


@dataclass
class Oracle:
    """A tool without memory: the same call has the same outcome, in this process and in the
    next."""

    seed: int
    calls: list[tuple[str, int, str]] = field(default_factory=list)

    def run(self, call: Call) -> Outcome | Suspension:
        place = [self.seed, call.task, call.attempt, call.idempotency_key, call.checkpoint]
        said = json.dumps([*place, dict(call.args)], sort_keys=True)
        self.calls.append((call.task, call.attempt, said))
        number = int.from_bytes(hashlib.sha256(said.encode()).digest()[:4], "big")
        if number % 11 < 3 and (call.checkpoint or 0) < 3:
            return Later((0.0, 0.5, 30.0)[number % 3], (call.checkpoint or 0) + 1)
        if number % 11 == 3:
            return ChildCall("tests/child", payload={"n": number % 10})
        if number % 4 == 0:
            kind = ("timeout", "python")[number // 4 % 2]
            return failed(ErrorInfo(kind, f"no {number % 7}", line=number % 4 or None), {"duration_ms": 1.5})
        return succeeded({"n": number % 10}, {"stdout": "x"}, py={"pid": number % 3})


def gone(reference: Mapping[str, Any], /) -> Any:
    raise AssertionError("no references here")


@dataclass
class Worker:
    """Runs slices of one pipeline, one after another, and keeps what it was told to commit."""

    program: PipelineSpec
    seed: int
    log: list[Draft] = field(default_factory=list)
    calls: list[tuple[str, int, str]] = field(default_factory=list)

    def slices(self, progress: PipelineProgress) -> Iterator[tuple[Move, PipelineProgress]]:
        """Every move, with the progress that it stands for, across suspensions."""
        while True:
            oracle = Oracle(self.seed)
            hands = PipelinePorts(oracle, gone, lambda: 0.5)
            names = Names(ctx={"a": {"z": 1}}, iter={"item": 1, "index": 0})
            for move in run(self.program, names, progress, hands):
                self.calls += oracle.calls
                oracle.calls = []
                if not isinstance(move, Sleep):
                    self.log += move.drafts
                    progress = move.progress
                if isinstance(move, Suspend) and move.child is not None:
                    # Nobody is sent for it before it is answered.
                    progress = self._answered(move, progress)
                yield move, progress
            if not isinstance(move, Suspend):
                return

    def _answered(self, move: Suspend, progress: PipelineProgress) -> PipelineProgress:
        assert move.child is not None
        number = move.child.payload["n"]
        fact = ChildEnded(move.task, "9", "completed", {"n": number})
        if number % 4 == 0:
            fact = ChildEnded(move.task, "9", "failed", error=ErrorInfo("child", f"no {number}"))
        place = self.program.where
        call = 0 if progress.calls is None else progress.calls.count
        item = 0 if progress.items is None else progress.items.index
        key = f"child:{move.task}/{progress.visits.get(move.task, 0)}/{call}/{item}/{progress.attempt}"
        draft = Draft(fact, run_id=place.run_id, iteration=place.iteration, dedup_key=key)
        self.log.append(draft)
        return evolve(self.program, progress, draft)


def whole(program: PipelineSpec, seed: int) -> tuple[Worker, list[tuple[Move, PipelineProgress, int, int]]]:
    worker = Worker(program, seed)
    moves = [
        (move, progress, len(worker.log), len(worker.calls))
        for move, progress in worker.slices(initial(program))
    ]
    return worker, moves


@settings(max_examples=examples(120), deadline=None)
@given(programs(), st.integers(0, 1000))
def test_the_log_up_to_any_move_folds_to_the_progress_at_that_move(program: PipelineSpec, seed: int) -> None:
    worker, moves = whole(program, seed)
    for _, progress, recorded, _ in moves:
        assert replay(program, worker.log[:recorded]) == progress


@settings(max_examples=examples(120), deadline=None)
@given(programs(), st.integers(0, 1000))
def test_after_a_crash_at_any_cut_the_rest_is_what_it_would_have_been(
    program: PipelineSpec, seed: int
) -> None:
    worker, moves = whole(program, seed)
    for _, _, recorded, called in [(None, None, 0, 0), *moves]:
        again = Worker(program, seed)
        rest = list(again.slices(replay(program, worker.log[:recorded])))
        assert again.log == worker.log[recorded:]
        assert again.calls == worker.calls[called:]
        assert rest[-1][1] == moves[-1][1]


@settings(max_examples=examples(120), deadline=None)
@given(programs(), st.integers(0, 1000))
def test_a_pipeline_ends_once_with_keys_that_differ_short_sleeps_and_long_suspensions(
    program: PipelineSpec, seed: int
) -> None:
    worker, moves = whole(program, seed)
    kinds = [type(move) for move, *_ in moves]
    assert kinds.count(Finished) == 1
    assert kinds[-1] is Finished
    assert all(kind in (Recorded, Sleep, Suspend) for kind in kinds[:-1])
    keys = [draft.dedup_key for draft in worker.log]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    for move, progress, *_ in moves:
        match move:
            case Sleep(seconds):
                assert 0.0 < seconds <= 1.0
                assert progress.wait_s == seconds or progress.checkpoint is not None
            case Suspend(seconds=seconds, child=child):
                assert (seconds is None) == (child is not None)
                assert seconds is None or seconds > 1.0
            case Recorded() | Finished():
                pass
