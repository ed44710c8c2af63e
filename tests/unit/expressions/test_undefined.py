"""What is not there is undefined, and says so where it cannot stand for nothing."""

from __future__ import annotations

import pytest

from noetl.errors import TemplateError
from noetl.expressions import Absence, evaluate, evaluate_at
from noetl.facts.warnings import Warned
from tests.unit.expressions.sample import NAMES


@pytest.mark.parametrize(
    "chain",
    ["nope", "nope.a.b", "null.a", "null.a.b", "d.z", "d.z.y", "xs[9]", "xs.z", "n.a", "nope[0]['x']"],
)
def test_an_undefined_chain_stands_for_nothing(chain: str) -> None:
    said: list[Absence] = []
    assert evaluate(f"{{{{ {chain} }}}}", NAMES, warn=said.append) is None
    assert said == [Absence(f"{{{{ {chain} }}}}")]
    asked = ("{} is defined", "{} is undefined", "{} is none", "{} == none", "{} != none", "not {}")
    tests = ", ".join(one.format(chain) for one in asked)
    assert evaluate(f"{{{{ [{tests}] }}}}", NAMES) == [False, True, True, True, False, True]
    assert evaluate(f"{{{{ {chain} | default(5) }}}}", NAMES) == 5
    assert evaluate("{{ [%s < 1, %s > 1, %s <= 1, 1 >= %s, 1 < %s] }}" % ((chain,) * 5), NAMES) == [False] * 5
    assert evaluate(f"{{{{ [{chain}, {{'a': {chain}}}] }}}}", NAMES) == [None, {"a": None}]
    assert evaluate(f"{{{{ {chain} | list }}}}", NAMES) == []
    assert evaluate(f"{{{{ {chain} | length }}}}", NAMES) == 0
    assert evaluate(f"{{{{ 1 in {chain} }}}}", NAMES) is False
    assert evaluate(f"{{{{ {chain} | int }}}}", NAMES) == 0


@pytest.mark.parametrize(
    "operation",
    [
        "nope.x + 1",
        "1 + nope.x",
        "nope.x * 2",
        "2 - nope.x",
        "-nope.x",
        "nope.x / 2",
        "nope.x % 2",
        "2 ** nope.x",
        "'a' + nope.x",
        "nope.x()",
    ],
)
def test_arithmetic_with_undefined_names_the_expression(operation: str) -> None:
    with pytest.raises(TemplateError, match=r"'?nope\.x'? ?.*undefined") as caught:
        evaluate(f"{{{{ {operation} }}}}", NAMES)
    assert operation in caught.value.message
    assert caught.value.line == 1


@pytest.mark.parametrize("chain", ["d.z.y", "d['nested'].z", "xs[9]", "rows[0].z.y", "d.get('q').w"])
def test_the_message_names_the_whole_chain(chain: str) -> None:
    shown = (
        chain.replace("['nested']", ".nested").replace("[9]", ".9").replace("[0]", ".0").replace("'q'", "")
    )
    with pytest.raises(TemplateError) as caught:
        evaluate(f"{{{{ {chain} + 1 }}}}", NAMES)
    assert f"'{shown}' is undefined" in caught.value.message


def test_null_takes_a_default_only_when_falsy_values_do() -> None:
    assert evaluate("{{ null | default(5) }}", NAMES) is None
    assert evaluate("{{ null | default(5, true) }}", NAMES) == 5
    assert evaluate("{{ '' | d('x', boolean=true) }}", NAMES) == "x"


def test_nothing_is_said_of_what_is_defined_or_stands_for_nothing_on_purpose() -> None:
    said: list[Absence] = []
    silent = ["{{ [nope] }}", "{{ null }}", "a{{ null }}", "{{ nope | default(1) }}", "a{{ nope | d('') }}"]
    evaluate(
        [*silent, "a{{ 'b' if nope }}", "a{% if nope %}{{ nope.a }}{% endif %}"], NAMES, warn=said.append
    )
    assert said == []


def test_paths_that_are_undefined_in_a_text_are_said_each_once() -> None:
    said: list[Absence] = []
    text = "{{ d.z.y }}-{% for x in xs %}{{ nope }}{% endfor %}"
    evaluate(text, NAMES, warn=said.append)
    assert said == [Absence(text, ("d.z.y", "nope"))]


def test_what_is_recorded_of_a_text_names_its_place_and_the_paths() -> None:
    warnings: list[Warned] = []
    assert evaluate_at("input", {"b": "orders/{{ d.z }}/x"}, NAMES, warnings) == {"b": "orders//x"}
    assert warnings == [{"template": "orders/{{ d.z }}/x", "place": "input.b", "absent": "d.z"}]
