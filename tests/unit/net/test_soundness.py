"""What is unsound, by what it is, with the shortest way there; and where looking ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl.net.model import Arc, Join, Milestone, Net, Task, Transition
from noetl.net.soundness import NotDecided, Sound, SoundnessBounds, Unsound, Unsoundness, decide
from noetl.net.soundness.guards import Assumed, read_guard
from tests.effort import calls


def _net(text: str, **joins: Join) -> Net:
    """`a>b,c b?c`: the arcs of steps that have a task; `>` without guards, `?` each with one of its
    own, `!` with one that is asked after failures as well. Routers take every arc that holds; the
    first name is the entry."""
    arcs: dict[str, list[Arc]] = {}
    for part in text.split():
        kind = next(one for one in ">?!" if one in part)
        source, _, targets = part.partition(kind)
        for target in filter(None, targets.split(",")):
            when = None if kind == ">" else f"{{{{ ctx.{source}_{target} }}}}"
            arcs.setdefault(source, []).append(
                Arc(f"{source}>{target}", source, target, when, boundary=kind == "!")
            )
            arcs.setdefault(target, [])
    steps = (
        Transition(name, (Task("t", "python"),), tuple(out), "inclusive", join=joins.get(name, Join()))
        for name, out in arcs.items()
    )
    return Net("n", "n", next(iter(arcs)), tuple(steps))


def _said(net: Net) -> list[str]:
    """`waits j: a → b, c; b → nothing; c → j`"""
    verdict = decide(net)
    if not isinstance(verdict, Unsound):
        return []
    return [f"{one.kind} {one.step}: {'; '.join(map(str, one.witness))}" for one in verdict.faults]


ALL = Join("all")


@pytest.mark.parametrize(
    ("arcs", "join", "said"),
    [
        ("a>b,c b>j c>j", ALL, []),
        ("a>b,c b?j c>j", Join(), []),
        ("a>b,c b?j c>j", Join("first"), []),
        ("a>b,c b?j c>j", ALL, ["waits j: a → b, c; b → nothing; c → j"]),
        ("a>b,c b?j c>j", Join("count", 2), ["waits j: a → b, c; b → nothing; c → j"]),
        ("a>b,c b>j b!h c>j", ALL, ["waits j: a → b, c; b fails → h; c → j; h → nothing"]),
        ("a>b b?b", Join(), []),
        ("a>a,b", Join(), ["piles_up b: a → a, b"]),
        ("a>b b?b,c", Join(), ["piles_up c: a → b; b → b, c"]),
        ("a>b b>c c>b", Join(), ["endless b: a → b; b → c; c → b"]),
        ("a>b,j b>c c>b", ALL, ["endless b: a → b, j; j → nothing; b → c; c → b"]),
    ],
)
def test_what_is_unsound_is_shown_by_what_happens_until_it_is_there(
    arcs: str, join: Join, said: list[str]
) -> None:
    assert _said(_net(arcs, j=join)) == said


@pytest.mark.parametrize(
    ("join", "waits"),
    [
        (Join(), False),
        (ALL, False),
        (Join("first"), False),
        (Join("count", 2), False),
        (Join("any"), True),
        (Join("first", cancel_rest=True), False),
    ],
    ids=["auto", "all", "first", "count", "any", "cancel"],
)
def test_only_a_join_that_fires_for_every_token_leaves_one_over_for_the_next(join: Join, waits: bool) -> None:
    net = _net("a>b,c,k b>j c>j j>k", j=join, k=ALL)
    for reduced in (True, False):
        verdict = decide(net, reduced=reduced)
        faults = verdict.faults if isinstance(verdict, Unsound) else ()
        assert [(one.kind, one.step) for one in faults] == ([("waits", "k")] if waits else [])


def test_an_exclusive_router_takes_one_arc_or_none() -> None:
    arcs = tuple(Arc(f"a>{to}", "a", to, f"{{{{ ctx.{to} }}}}") for to in "bc")
    ends = (Transition("b", arcs=(Arc("b>j", "b", "j"),)), Transition("c", arcs=(Arc("c>j", "c", "j"),)))
    net = Net("n", "n", "a", (Transition("a", arcs=arcs), *ends, Transition("j", join=Join("any"))))
    assert isinstance(decide(net), Sound)
    strict = Net("n", "n", "a", (Transition("a", arcs=arcs), *ends, Transition("j", join=ALL)))
    assert {one.kind for one in _faults(strict)} == {"waits"}


def test_an_arc_whose_guard_was_asked_before_is_never_taken_and_its_step_never_runs() -> None:
    same = tuple(Arc(f"a>{to}", "a", to, "{{ ctx.x }}") for to in "bc")
    net = Net("n", "n", "a", (Transition("a", arcs=same), Transition("b"), Transition("c")))
    assert _faults(net) == [Unsoundness("dead", "c")]


def _faults(net: Net) -> list[Unsoundness]:
    verdict = decide(net)
    return list(verdict.faults) if isinstance(verdict, Unsound) else []


# --- guards that say something of each other ------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("{{ ctx.n < 3 }}", "{{ ctx.n >= 3 }}", {(True, False), (False, True)}),
        ("{{ ctx.n > 3 }}", "ctx.n <= 3", {(True, False), (False, True)}),
        ("{{ ctx.x }}", "{{ not  ctx.x }}", {(True, False), (False, True)}),
        ("{{ ctx.x == ctx.y }}", "{{ ctx.x != ctx.y }}", {(True, False), (False, True)}),
        ("{{ ctx.k == 'a' }}", '{{ ctx.k == "b" }}', {(True, False), (False, True), (False, False)}),
        ("{{ ctx.k == 'a' }}", "{{ ctx.k != 'a' }}", {(True, False), (False, True)}),
        ("{{ ctx.k != 'a' }}", "{{ ctx.k != 'b' }}", {(True, False), (False, True), (True, True)}),
        ("{{ a and b }}", "{{ a and b }}", {(True, True), (False, False)}),
        ("{{ not a and b }}", "{{ a and b }}", {(x, y) for x in (True, False) for y in (True, False)}),
    ],
)
def test_guards_of_one_router_agree_as_far_as_their_texts_show(
    one: str, other: str, both: set[tuple[bool, bool]]
) -> None:
    found = {
        (first, second)
        for first, assumed in Assumed().ask(read_guard(one))
        for second, _ in assumed.ask(read_guard(other))
    }
    assert found == both


# --- how far it looks -----------------------------------------------------------------------------


def _independent(width: int) -> Net:
    """Branches that each may end early before a join that takes what comes, in a cycle: every
    combination is a marking of its own."""
    branches = [f"b{number}" for number in range(width)]
    ways = " ".join(f"{one}?x{one},y{one} x{one}?j y{one}?j" for one in branches)
    return _net(f"a>{','.join(branches)} {ways} j?a,e")


def test_looking_ends_after_so_many_markings_or_when_it_is_told_to() -> None:
    net = _independent(9)
    assert decide(net, bounds=SoundnessBounds(500)) == NotDecided("it has more than 500 markings", 500)
    assert decide(net, bounds=SoundnessBounds(should_stop=lambda: True)) == NotDecided("it takes too long", 0)


def test_a_fault_that_was_found_counts_where_not_all_was_looked_at() -> None:
    branches = [f"b{number}" for number in range(20)]
    net = _net(f"a>{','.join(branches)} {' '.join(f'{one}?j' for one in branches)}", j=ALL)
    verdict = decide(net, bounds=SoundnessBounds(3_000))
    assert isinstance(verdict, Unsound)
    assert (verdict.faults[0].kind, verdict.faults[0].step) == ("waits", "j")


def test_a_router_with_too_many_choices_is_not_looked_at() -> None:
    net = _net("a?" + ",".join(f"b{number}" for number in range(12)))
    assert decide(net) == NotDecided("the router of 'a' can choose in too many ways", 0)


def _blocks(number: int) -> Net:
    """So many blocks of seven steps, in a row and side by side."""
    arcs = " ".join(
        f"f{n}>a{n},b{n} a{n}>c{n} b{n}>j{n} c{n}>j{n} j{n}?d{n},e{n} d{n}>f{n + 1} e{n}>f{n + 1}"
        for n in range(number)
    )
    net = _net(arcs, **{f"j{n}": ALL for n in range(number)})
    assert net.incoming
    return net


def test_a_thousand_steps_in_a_row_and_side_by_side_are_one_step() -> None:
    few, many = _blocks(71), _blocks(142)
    assert len(many.transitions) > 990
    verdict = decide(many)
    assert isinstance(verdict, Sound)
    assert verdict.explored < 5
    assert calls(lambda: decide(many)) < 2.2 * calls(lambda: decide(few))


def test_a_long_cycle_and_a_wide_fork_need_no_recursion() -> None:
    long = " ".join(f"s{n}>s{n + 1}" for n in range(3_000))
    assert isinstance(decide(_net(f"{long} s3000?s0")), Sound)
    wide = [f"b{n}" for n in range(1_500)]
    assert isinstance(
        decide(_net(f"a>{','.join(wide)} {' '.join(f'{one}>j' for one in wide)}", j=ALL)), Sound
    )


# --- how many tokens there are, and steps that end everything -------------------------------------


def _split(arcs: str, times: int, **joins: Join) -> Net:
    """The net of `_net` whose first arc puts down so many tokens."""
    net = _net(arcs, **joins)
    first = net.transitions[0]
    split = replace(first, arcs=(replace(first.arcs[0], times=times), *first.arcs[1:]))
    return replace(net, transitions=(split, *net.transitions[1:]))


@pytest.mark.parametrize(
    ("times", "needed", "waits"), [(6, 3, False), (4, 3, True), (2, 3, True), (3, 1, False), (16, 16, False)]
)
def test_a_join_that_merges_tokens_waits_for_ever_where_they_do_not_come_out_even(
    times: int, needed: int, *, waits: bool
) -> None:
    faults = _faults(_split("a>b b>c", times, c=Join("tokens", needed)))
    assert [(one.kind, one.step) for one in faults] == ([("waits", "c")] if waits else [])


def test_a_merge_that_a_cycle_feeds_takes_what_gathers_before_it() -> None:
    assert isinstance(decide(_net("a>b b?b,c c?d", c=Join("tokens", 1))), Unsound)
    faults = _faults(_net("a>b b>c c?b", c=Join("tokens", 3)))
    assert [one.kind for one in faults] == ["waits"]


@pytest.mark.parametrize("times", [17, "{{ ctx.n }}"])
def test_tokens_that_nobody_can_count_are_not_decided_about(times: object) -> None:
    verdict = decide(_split("a>b b>c", times, c=Join("tokens", 3)))  # type: ignore[arg-type]
    assert isinstance(verdict, NotDecided)
    assert "'a'" in verdict.reason


def test_a_step_that_ends_the_execution_ends_what_waits_and_what_repeats() -> None:
    for arcs, joins in (("a>b,c b?j c>j,e", {"j": ALL}), ("a>b,e b>c c>b", {})):
        net = _net(arcs, **joins)
        assert _faults(net)
        ends = tuple(
            replace(one, terminate="completed") if one.name == "e" else one for one in net.transitions
        )
        ended = replace(net, transitions=ends)
        assert not _faults(ended)


def test_a_milestone_may_hold_a_token_back_and_drop_it() -> None:
    net = _net("a>b,c b>j c>j", j=ALL)
    assert not _faults(net)
    held = tuple(
        replace(one, milestone=Milestone("b")) if one.name == "c" else one for one in net.transitions
    )
    assert [one.kind for one in _faults(replace(net, transitions=held))] == ["waits"]
