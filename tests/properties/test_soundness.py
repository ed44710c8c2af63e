"""What is said of a net when it is compiled is what the engine can make of it."""

from __future__ import annotations

from hypothesis import assume, event, given, note, settings
from sound_nets import play_all, sound_nets

from noetl.net.model import Net
from noetl.net.soundness import NotDecided, SoundnessBounds, Unsound, Verdict, decide
from tests.budget import examples


def _faults(verdict: Verdict, kind: str) -> set[str]:
    return (
        {fault.step for fault in verdict.faults if fault.kind == kind}
        if isinstance(verdict, Unsound)
        else set()
    )


@settings(max_examples=examples(60))
@given(net=sound_nets())
def test_a_net_is_unsound_where_the_engine_can_come_to_no_proper_end(net: Net) -> None:
    note(_say(net))
    played = play_all(net)
    verdict = decide(net, bounds=SoundnessBounds(20_000))
    note(f"{played}\n{verdict}")
    event(f"{type(verdict).__name__}, {'whole' if played.is_whole else 'too large'}")
    assume(not isinstance(verdict, NotDecided))
    if not played.is_whole:
        return
    assert not _faults(verdict, "piles_up")
    assert _faults(verdict, "waits") == played.stuck
    assert bool(_faults(verdict, "endless")) == played.endless
    assert not _faults(verdict, "dead") & played.fired
    if not played.endless:
        led_to = {arc.step for arc in net.arcs.values() if arc.source in played.fired}
        never = led_to - played.fired
        assert _faults(verdict, "dead") == never - played.stuck


@settings(max_examples=examples(60))
@given(net=sound_nets(most=8))
def test_a_smaller_net_is_as_sound_as_the_whole_one(net: Net) -> None:
    note(_say(net))
    smaller, whole = (
        decide(net, bounds=SoundnessBounds(2_000), reduced=reduced) for reduced in (True, False)
    )
    note(f"{smaller}\n{whole}")
    event(f"{type(smaller).__name__}, {type(whole).__name__}")
    assume(not isinstance(whole, NotDecided) and not isinstance(smaller, NotDecided))
    assert bool(_faults(smaller, "piles_up")) == bool(_faults(whole, "piles_up"))
    if not _faults(whole, "piles_up"):
        for kind in ("waits", "dead"):
            assert _faults(smaller, kind) == _faults(whole, kind)
        assert bool(_faults(smaller, "endless")) == bool(_faults(whole, "endless"))


def _say(net: Net) -> str:
    return "\n".join(
        f"{one.name} {'' if one.tasks else 'instant '}{one.join} {one.admit} {one.router}: "
        + ", ".join(
            f"{arc.step}{'?' if arc.when else ''}{arc.when}{'!' if arc.boundary else ''}" for arc in one.arcs
        )
        for one in net.transitions
    )
