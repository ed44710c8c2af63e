"""What is offered where somebody types, in texts that are no playbooks yet. `|` is the cursor."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.dsl.completion import Completer, Completion, InstalledNames, Offer
from noetl.tools.kit.registry import kinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: one\n"
FLOW = HEAD + "workflow:\n"
KNOWN = InstalledNames(credentials=("warehouse",), playbooks=("shop/pay",))


@pytest.fixture(scope="module")
def completer() -> Completer:
    return Completer(kinds())


def complete(completer: Completer, text: str) -> Completion:
    before, _, after = text.partition("|")
    line, column = before.count("\n"), len(before.rpartition("\n")[2])
    return completer.complete(before + after, line, column, KNOWN)


def offered(completer: Completer, text: str) -> list[str]:
    return [one.label for one in complete(completer, text).offers]


def find(found: Sequence[Offer], label: str) -> Offer:
    return next(one for one in found if one.label == label)


@pytest.mark.parametrize(
    ("text", "there", "not_there"),
    [
        # the document
        ("|", {"apiVersion", "workflow", "workload"}, {"step", "variables"}),
        (HEAD + "|", {"workflow"}, {"apiVersion", "kind"}),
        ("metadata:\n  |\nworkflow: []\n", {"name", "path", "labels"}, {"step", "workflow"}),
        # steps
        (FLOW + "  - |", {"step", "tool", "next"}, {"kind", "case", "rules"}),
        (FLOW + "  - step: a\n    |\n  - step: b\n", {"tool", "loop"}, {"step", "url"}),
        (FLOW + "- step: a\n  |\n  tool: {kind: noop}\n", {"next"}, {"tool", "step"}),
        # tools: what all have, and what this kind has, wherever its kind stands
        (FLOW + "  - step: a\n    tool:\n      |\n", {"kind", "spec"}, {"url", "code", "step"}),
        (FLOW + "  - step: a\n    tool:\n      |\n      kind: http\n", {"url", "spec"}, {"kind", "code"}),
        (FLOW + "  - step: a\n    tool: {kind: python, |}\n", {"code", "spec"}, {"url", "kind"}),
        (FLOW + "  - step: a\n    tool: [{kind: noop}, {kind: http, |", {"url"}, {"code"}),
        (FLOW + "  - step: a\n    desc: >\n      x\n    tool:\n      |", {"kind"}, {"step"}),
        (FLOW + "  - step: a\n    tool: {kind: http, params: {a: [1, 2]}, |", {"url"}, {"params", "a"}),
        (
            FLOW + "  - step: a\n    tool:\n      - get:\n          kind: http\n          |\n",
            {"url"},
            {"get"},
        ),
        (
            FLOW + "  - step: a\n    tool:\n      - kind: http\n      - kind: python\n        |",
            {"code"},
            {"url"},
        ),
        # where it leads
        (FLOW + "  - step: a\n    next:\n      |", {"arcs", "spec"}, {"tool"}),
        (FLOW + "  - step: a\n    next:\n      arcs:\n        - step: a\n          |", {"when"}, {"step"}),
        # further in
        (HEAD + "inputs:\n  size:\n    |", {"type", "default"}, {"tool"}),
        ("keychain:\n  - name: x\n    kind: secret\n    |", {"provider", "path"}, {"kind", "password"}),
    ],
)
def test_keys_are_those_of_the_place(
    completer: Completer, text: str, there: set[str], not_there: set[str]
) -> None:
    found = set(offered(completer, text))
    assert there <= found
    assert not found & not_there


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kind: |", ["Playbook"]),
        (FLOW + "  - step: a\n    terminate: |", ["completed", "failed", "cancelled"]),
        (FLOW + "  - step: a\n    tool: {kind: ht|", ["http"]),
        (FLOW + "  - step: a\n    tool: {kind: http, effects: |}", ["none", "idempotent", "external"]),
        (FLOW + "  - step: a\n    next: |\n  - step: b\n", ["a", "b"]),
        (FLOW + "  - step: a\n    next: [a, |]\n  - step: b\n", ["a", "b"]),
        (FLOW + "  - step: a\n    next:\n      - step: |\n  - step: b\n", ["a", "b"]),
        (FLOW + "- step: a\n  next: {step: |\n- step: b\n", ["a", "b"]),
        (FLOW + "- step: a\n  tool: {kind: http, auth: |", ["warehouse"]),
        (
            "keychain: {token: {kind: static}}\n" + FLOW + "- step: a\n  tool: {auth: |",
            ["token", "warehouse"],
        ),
        (FLOW + "- step: a\n  tool:\n    kind: playbook\n    path: sh|\n", ["shop/pay"]),
        ("workbook:\n- name: sum\n" + FLOW + "- step: a\n  tool: {kind: workbook, name: |", ["sum"]),
    ],
)
def test_values_are_those_that_the_key_takes(completer: Completer, text: str, found: list[str]) -> None:
    assert offered(completer, text) == found


IN_TEMPLATES = """\
inputs:
  day: {type: date}
workload:
  shop: {name: a, city: Kyiv}
ctx: {total: 0}
keychain: {token: {kind: static}}
workflow:
  - step: load
    loop: {in: [1], iterator: row}
    tool:
      kind: http
      url: "{{ %s"
      code: |
        f"{{ %s"
  - step: pay
"""


@pytest.mark.parametrize(
    ("typed", "there", "not_there"),
    [
        ("|", {"workload.day", "load", "ctx.total", "iter.row", "row", "now", "range"}, {"upper", "kind"}),
        ("workload.|", {"workload.day", "workload.shop", "workload.shop.city"}, {"load", "ctx.total"}),
        ("1 + workload.shop.|", {"workload.shop.name", "workload.shop.city"}, {"workload.day"}),
        ("keych|", {"keychain.token"}, {"load"}),
        ("load }} and {{ p|", {"pay"}, {"load"}),
        ("load }}|", set(), {"load", "url"}),
        ("'|", set(), {"load"}),
    ],
)
def test_names_are_offered_within_templates(
    completer: Completer, typed: str, there: set[str], not_there: set[str]
) -> None:
    found = set(offered(completer, IN_TEMPLATES % (typed, "")))
    assert there <= found
    assert not found & not_there


def test_what_is_chosen_in_a_template_takes_the_place_of_all_of_the_name(completer: Completer) -> None:
    found = complete(completer, IN_TEMPLATES % ("1 + workload.shop.ci|", ""))
    assert (found.begin, [one.text for one in found.offers]) == (19, ["workload.shop.city"])


def test_filters_are_offered_behind_a_bar(completer: Completer) -> None:
    text = IN_TEMPLATES % ("load.data | up", "")
    line = next(number for number, one in enumerate(text.splitlines()) if "url" in one)
    found = completer.complete(text, line, text.splitlines()[line].index("up") + 2, KNOWN)
    assert ("upper", "filter") in [(one.label, one.what) for one in found.offers]
    assert "pay" not in [one.label for one in found.offers]


def test_code_is_no_template(completer: Completer) -> None:
    assert offered(completer, IN_TEMPLATES % ("", "lo|")) == []


@pytest.mark.parametrize("kind", ["postgres", "http", "duckdb"])
def test_other_spellings_of_a_key_come_last(completer: Completer, kind: str) -> None:
    found = complete(completer, FLOW + f"  - step: a\n    tool:\n      kind: {kind}\n      |").offers
    others = [one.about.startswith("The same as") for one in found]
    assert (others[0], others[-1], others) == (False, True, sorted(others))


def test_a_tool_begins_with_its_kind(completer: Completer) -> None:
    found = find(complete(completer, FLOW + "  - step: a\n    to|").offers, "tool")
    assert found.text == "tool:\n      kind: "
    assert "python" in offered(completer, FLOW + f"  - step: a\n    {found.text}|")


def test_an_item_that_may_be_a_name_or_a_mapping_is_offered_both(completer: Completer) -> None:
    found = complete(completer, FLOW + "  - step: a\n    next:\n      - |\n  - step: b\n").offers
    assert find(found, "when").what == "key"
    assert find(found, "b").what == "step"


@pytest.mark.parametrize(
    "text",
    [
        FLOW + "# |",
        FLOW + "  - step: a # |",
        FLOW + "  - step: a\n      |",
        FLOW + "  - step: a\n    next:|",
        FLOW + '  - step: a\n    next: "|',
        "key: >\n  va|",
        FLOW + "  - step: a\n    tool:\n      kind: python\n      code: >\n        x = |",
        FLOW + "  - step: a\n    tool:\n      kind: python\n      code: >\n\n        |\n        y = 1",
        FLOW + "  - step: a\n    tool: {kind: '|",
        FLOW + "  - step: a\n    tool: {kind:|",
    ],
)
def test_nothing_is_offered_where_nothing_of_the_language_is_typed(completer: Completer, text: str) -> None:
    assert offered(completer, text) == []


@pytest.mark.parametrize(
    "broken",
    [
        "  - step: b\n    tool: {",
        "  - step: b\n    [",
        "\t- x",
        "  - 'never ends",
        "  what is this",
        "  - - - :",
    ],
)
def test_the_rest_of_the_text_may_be_anything(completer: Completer, broken: str) -> None:
    text = FLOW + f"  - step: a\n    tool:\n      kind: http\n      |\n{broken}\n"
    assert "url" in offered(completer, text)


def test_text_behind_a_block_is_of_the_language_again(completer: Completer) -> None:
    block = "      code: >\n        result = 1\n\n        more = {\n"
    text = FLOW + f"  - step: a\n    tool:\n      kind: python\n{block}    |\n"
    assert "next" in offered(completer, text)


def test_an_offer_says_what_it_means_and_what_is_written(completer: Completer) -> None:
    found = complete(completer, FLOW + "  - step: a\n    ne|")
    assert found.begin == 4
    (one,) = [offer for offer in found.offers if offer.label == "next"]
    assert (one.text, one.what) == ("next: ", "key")
    assert one.about.startswith("Where it leads")
    kind = complete(completer, FLOW + "  - step: a\n    tool: {kind: ht|").offers[0]
    assert kind.about.startswith("Calls an HTTP service")


def test_what_only_holds_more_is_written_with_a_line_for_it(completer: Completer) -> None:
    found = complete(completer, FLOW + "  - step: a\n    |").offers
    assert find(found, "loop").text == "loop:\n      "
    assert find(complete(completer, "|").offers, "workflow").text == "workflow:\n  - "
    inside = complete(completer, FLOW + "  - step: a\n    tool: {kind: http, |").offers
    assert find(inside, "spec").text == "spec: ", "within braces everything is on one line"


def test_every_key_of_a_tool_says_what_it_is_for(completer: Completer) -> None:
    found = complete(completer, FLOW + "  - step: a\n    tool:\n      kind: http\n      |").offers
    assert [one.label for one in found if not one.about] == []


def test_what_a_kind_of_tool_has_comes_first(completer: Completer) -> None:
    found = offered(completer, FLOW + "  - step: a\n    tool:\n      kind: http\n      |")
    assert found.index("url") < found.index("spec")
