"""Given how far a task that repeats has come, when a call ends, then this is recorded, asked for
next, and yielded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.errors import BadRequest, LimitExceeded, NoetlError, TemplateError
from noetl.facts.events import TaskCallDone
from noetl.facts.json import Json
from noetl.facts.outcome import succeeded
from noetl.net.model import CollectPolicy, NextRequest, Pages, Repeat, Task
from noetl.pipeline import repeating
from noetl.pipeline.model import Calls


def gone(reference: Mapping[str, Any], /) -> Json:
    raise AssertionError("no references here")


def ended(
    repeat: Repeat, result: Json, request: Json = None, *, calls: Calls | None = None, kind: str = "http"
) -> TaskCallDone:
    """What is recorded when the call with `request` yields `result`, behind those of `calls`."""
    task = Task("fetch", kind, {"url": "u", "params": {"q": 1}}, repeat=repeat)
    outcome = succeeded(result)
    names = {"output": result, "n": 3}
    answer = repeating.CallAnswer(result, request or {}, {**names, "result": result}, names, gone, [])
    return repeating.call_end(task, repeat, calls or Calls(), answer, outcome)


def response(data: Json, **more: Json) -> Json:
    return {"status_code": 200, "headers": {}, "url": "u", "elapsed": 1, "data": data, **more}


def pages(by: Any, size: Json = None, path: str = "", until: Json = None, **more: Any) -> Repeat:
    form = Pages(by, "" if by == "link" else by, None, size, path, until)
    return Repeat(pages=form, collect=CollectPolicy("rows"), **more)


@pytest.mark.parametrize(
    ("form", "first"),
    [
        (Pages("page", "page"), {"params": {"page": 1}}),
        (Pages("page", "p", "{{ n }}"), {"params": {"p": 3}}),
        (Pages("page", "p", "{{ '4' }}"), {"params": {"p": 4}}),
        (Pages("offset", "offset", size=5), {"params": {"offset": 0, "limit": 5}}),
        (Pages("offset", "at", 7, "{{ n }}"), {"params": {"at": 7, "limit": 3}}),
        (Pages("cursor", "cursor", path="next"), {"params": {"cursor": None}}),
        (Pages("cursor", "c", "{{ 'x' ~ n }}", path="next"), {"params": {"c": "x3"}}),
        (Pages("link"), {}),
    ],
)
def test_the_first_page_is_asked_for_with_its_parameter(form: Pages, first: Json) -> None:
    assert repeating.first_page(form, {"n": 3}, gone) == first


def test_a_first_number_that_is_not_one_is_an_error() -> None:
    with pytest.raises(BadRequest, match="'start' must be a whole number, not 'many'"):
        repeating.first_page(Pages("page", "p", "{{ 'many' }}"), {}, gone)


@pytest.mark.parametrize(
    ("repeat", "request_", "result", "then"),
    [
        (pages("page"), {"params": {"page": 1}}, {"rows": [1]}, {"params": {"page": 2}}),
        (pages("page"), {"params": {"page": 1}}, {"rows": []}, None),
        (pages("page", 2), {"params": {"page": 1}}, {"rows": [1]}, None),
        (pages("page", "{{ n }}"), {"params": {"page": 4}}, {"rows": [1, 2, 3]}, {"params": {"page": 5}}),
        (
            pages("page", until="{{ output.data.done }}"),
            {"params": {"page": 1}},
            {"rows": [1], "done": 1},
            None,
        ),
        (
            pages("offset", 2),
            {"params": {"offset": 4, "limit": 2}},
            {"rows": [1, 2]},
            {"params": {"offset": 6, "limit": 2}},
        ),
        (pages("offset", 2), {"params": {"offset": 4, "limit": 2}}, {"rows": [1]}, None),
        (
            pages("cursor", path="m.0.at"),
            {"params": {"cursor": None}},
            {"rows": [], "m": [{"at": "b"}]},
            {"params": {"cursor": "b"}},
        ),
        (pages("cursor", path="m.at"), {"params": {"cursor": "b"}}, {"rows": [1], "m": {"at": 0}}, None),
        (pages("cursor", path="m.at"), {"params": {"cursor": "b"}}, {"rows": [1]}, None),
    ],
)
def test_the_next_page_follows_as_its_type_says(
    repeat: Repeat, request_: Json, result: Json, then: Json
) -> None:
    fact = ended(repeat, response(result), request_)
    assert (fact.request, fact.kept, fact.truncated) == (then, result["rows"], False)


def test_a_link_replaces_the_parameters() -> None:
    linked = response({"rows": [1]}, links={"next": "u2"})
    assert ended(pages("link"), linked).request == {"url": "u2", "params": {"q": None}}
    assert ended(pages("link"), response({"rows": [1]})).request is None


def test_the_first_entry_that_holds_is_merged_into_the_last_request() -> None:
    repeat = Repeat(
        (
            NextRequest("{{ output.a == 9 }}", {"url": "never"}),
            NextRequest("output.a == 1", {"params": {"x": {"z": "{{ output.a }}"}}, "args": {"n": 2}}),
            NextRequest(None, {"url": "last"}),
        )
    )
    last = {"params": {"x": {"y": "{{ kept }}"}}}
    merged = {"params": {"x": {"y": "{{ kept }}", "z": 1}}, "args": {"n": 2}}
    assert ended(repeat, {"a": 1}, last).request == merged
    assert ended(repeat, {"a": 2}, last).request == {**last, "url": "last"}
    assert ended(Repeat(repeat.next[:2]), {"a": 2}, last).request is None


APPEND = CollectPolicy("rows")
BY_MARK = (NextRequest(None, {"params": {"at": "{{ output.data.next }}"}}),)


@pytest.mark.parametrize(
    ("repeat", "request_", "said"),
    [
        (
            pages("cursor", path="next"),
            {"params": {"cursor": "b"}},
            "page 2 leads to itself: name in `param`",
        ),
        (
            pages("link"),
            {"url": "b", "params": {"q": None}},
            "page 2 leads to itself: the service's Link header",
        ),
        (pages("page"), {"params": {"page": 2}}, "page 2 is the same as page 1, and not empty"),
        (pages("offset", 1), {"params": {"offset": 1, "limit": 1}}, "page 2 is the same as page 1"),
        (pages("cursor", path="next"), {"params": {"cursor": "a"}}, "page 2 is the same as page 1"),
        (Repeat(BY_MARK, collect=APPEND), {"params": {"at": "b"}}, "call 2 leads to itself: let `next` ask"),
        (Repeat(BY_MARK, collect=APPEND), {"params": {"at": "a"}}, "call 2 is the same as call 1"),
    ],
)
def test_pages_that_do_not_move_are_an_error(repeat: Repeat, request_: Json, said: str) -> None:
    page = response({"rows": [1], "next": "b"}, links={"next": "b"})
    with pytest.raises(LimitExceeded, match=re.escape(said)):
        ended(repeat, page, request_, calls=Calls(count=1, parts=([1],)))


@pytest.mark.parametrize(
    ("repeat", "result"),
    [
        (pages("page"), {"rows": []}),
        (pages("page", 2), {"rows": [1]}),
        (pages("page", until=True), {"rows": [1]}),
        (Repeat((NextRequest(),), collect=APPEND), {"rows": [1]}),
        (Repeat(BY_MARK, collect=CollectPolicy("rows", "replace")), {"rows": [1], "next": "b"}),
        (Repeat(BY_MARK), {"rows": [1], "next": "b"}),
        (Repeat((NextRequest(None, {"json": {"n": "{{ n }}"}}),), collect=APPEND), {"rows": [1]}),
        (Repeat((NextRequest(None, {"args": {"n": "{{ n }}"}}),), collect=APPEND), {"rows": [1]}),
    ],
    ids=["empty", "last", "stopped", "poll", "poll the last", "nothing kept", "brings data", "brings inputs"],
)
def test_who_polls_or_has_come_to_the_end_may_get_the_same_again(repeat: Repeat, result: Json) -> None:
    request = {"params": {"page": 2, "at": "b"}}
    assert ended(repeat, response(result), request, calls=Calls(count=1, parts=(result["rows"],))).call == 2


@pytest.mark.parametrize(("most", "follows"), [(1, False), (2, False), (3, True), ("{{ n }}", True)])
def test_max_counts_all_calls_and_what_is_asked_for_beyond_it_is_truncated(most: Json, follows: bool) -> None:
    fact = ended(Repeat((NextRequest(),), max=most), {}, calls=Calls(count=1))
    assert (fact.call, fact.request is not None, fact.truncated) == (2, follows, not follows)


@pytest.mark.parametrize(
    ("how", "waits"),
    [
        ("none", [2, 2, 2]),
        ("fixed", [2, 2, 2]),
        ("linear", [2, 4, 6]),
        ("exponential", [2, 4, 8]),
    ],
)
def test_the_delay_grows_as_backoff_says(how: Any, waits: list[float]) -> None:
    repeat = Repeat((NextRequest(),), delay="2s", backoff=how)
    assert [ended(repeat, {}, calls=Calls(count=count)).delay for count in range(3)] == waits


def test_growing_delays_end_at_an_hour_and_a_longer_first_one_stays() -> None:
    assert repeating.grown(5.0, "exponential", 1_000_000) == 3600.0
    assert repeating.grown(7200.0, "linear", 9) == 7200.0


@pytest.mark.parametrize(
    ("collect", "kept"),
    [
        (CollectPolicy("rows"), [1]),
        (CollectPolicy("one"), [5]),
        (CollectPolicy("none"), []),
        (CollectPolicy("status_code"), [200]),
        (CollectPolicy("one", "replace"), 5),
        (CollectPolicy("rows.0", "merge"), 1),
        (None, None),
    ],
)
def test_what_is_kept_stands_in_the_body_or_in_the_response(collect: Any, kept: Json) -> None:
    repeat = Repeat((NextRequest(False),), collect=collect)
    assert ended(repeat, response({"rows": [1], "one": 5, "none": None})).kept == kept


@pytest.mark.parametrize(
    ("repeat", "said"),
    [
        (pages("page"), r"'output\.data\[\"rows\"\]' is undefined"),
        (Repeat((NextRequest(),), collect=CollectPolicy("a.b")), "nothing at 'a.b'"),
        (Repeat((NextRequest("{{ 1 / 0 }}"),)), "zero"),
        (Repeat((NextRequest(),), max="{{ 'x' }}"), "'max' must be a whole number"),
        (Repeat((NextRequest(),), delay="never"), "'delay'"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_names_it(repeat: Repeat, said: str) -> None:
    with pytest.raises(NoetlError, match=said):
        ended(repeat, response({}), {"params": {"page": 1}})


def test_items_that_are_no_list_are_an_error() -> None:
    with pytest.raises(TemplateError, match="is no list"):
        ended(pages("page"), response({"rows": "abc"}), {"params": {"page": 1}})


PAGE = {"a": 1, "data": 2}


@pytest.mark.parametrize(
    ("collect", "calls", "result"),
    [
        (None, Calls(2, page=PAGE), PAGE),
        (None, Calls(2, page=PAGE, truncated=True), {**PAGE, "pages": 2, "truncated": True}),
        (None, Calls(2, page=7, truncated=True), {"data": 7, "pages": 2, "truncated": True}),
        (None, Calls(truncated=True), {"data": None, "pages": 0, "truncated": True}),
        (
            CollectPolicy(),
            Calls(2, parts=([1], [2, 3]), page=PAGE),
            {"a": 1, "data": [1, 2, 3], "pages": 2, "truncated": False},
        ),
        (
            CollectPolicy("", "replace"),
            Calls(1, parts=([3],), page=4),
            {"data": [3], "pages": 1, "truncated": False},
        ),
        (CollectPolicy("", "replace"), Calls(truncated=True), {"data": None, "pages": 0, "truncated": True}),
        (
            CollectPolicy("", "merge"),
            Calls(2, parts=({"x": [1]}, {"x": [2]}), page=4),
            {"data": {"x": [1, 2]}, "pages": 2, "truncated": False},
        ),
    ],
)
def test_the_whole_is_the_last_result_with_what_was_collected(
    collect: Any, calls: Calls, result: Json
) -> None:
    task = Task("t", "python")
    outcome, _ = repeating.whole(task, Repeat((NextRequest(),), collect=collect), calls, gone)
    assert outcome.result == result


def test_pages_yield_their_items_alone() -> None:
    calls = Calls(2, parts=([1], [2]), page=response({}))
    outcome, data = repeating.whole(Task("t", "http"), pages("page"), calls, gone)
    assert outcome.result == {"data": [1, 2], "pages": 2, "truncated": False}
    assert data == [1, 2]
