"""Templates and secrets: a reference comes out, and nothing that only the value could tell."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError, TemplateSecurity
from noetl.expressions import evaluate, truth, values_read
from noetl.facts.secret import Keychain, deeper, replace_markers, seal_reference

KEY = b"k" * 32
DB = seal_reference({"kind": "secret_ref", "execution": "1", "keychain": "db"}, KEY)
NAMES = {
    "keychain": Keychain(({"name": "db"},), "1", lambda one: seal_reference(one, KEY)),
    "ctx": {"kept": DB, "header": "Bearer x"},
}


def opened(text: str, value: Any = 'a"b/c') -> str:
    return replace_markers(text, lambda _: value)


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ("{{ keychain.db }}", None),
        ("{{ keychain.db.password }}", "password"),
        ("{{ keychain['db']['kind'] }}", "kind"),
        ("{{ ctx.kept.a.b }}", "a.b"),
        ("{{ (keychain.db).password }}", "password"),
        ("{{ keychain.db.password | default('x') }}", "password"),
        ("{{ keychain.db.password if true else 1 }}", "password"),
    ],
)
def test_a_whole_expression_is_the_reference(template: str, field: str | None) -> None:
    assert evaluate(template, NAMES) == (DB if field is None else {**DB, "field": field})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Bearer {{ keychain.db.p }}", 'Bearer a"b/c'),
        ("{{ 'Bearer ' + keychain.db.p }}", 'Bearer a"b/c'),
        ("{{ keychain.db.p + '!' }}", 'a"b/c!'),
        ("{{ 'x' ~ keychain.db.p ~ 1 }}", 'xa"b/c1'),
        ("{{ '%s:%s' % ('u', keychain.db.p) }}", 'u:a"b/c'),
        ("{{ 'u:{}'.format(keychain.db.p) }}", 'u:a"b/c'),
        ("{{ ['u', keychain.db.p] | join(':') }}", 'u:a"b/c'),
        ("{{ {'p': keychain.db.p} | tojson }}", '{"p": "a\\"b/c"}'),
        ("{{ {'p': 'B ' ~ keychain.db.p} | tojson }}", '{"p": "B a\\"b/c"}'),
        ("k={{ keychain.db.p | urlencode }}", "k=a%22b%2Fc"),
        ("{% for x in [keychain.db.p] %}{{ x }}{% endfor %}", 'a"b/c'),
    ],
)
def test_in_texts_a_marker_stands_for_the_secret(template: str, text: str) -> None:
    rendered = evaluate(template, NAMES)

    assert 'a"b' not in rendered
    assert opened(rendered) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ keychain.db.p == 's3cret' }}",
        "{{ 's3cret' != keychain.db.p }}",
        "{{ keychain.db.p > 1 }}",
        "{{ 's' in keychain.db.p }}",
        "{{ keychain.db.p in ['s3cret'] }}",
        "{{ keychain.db.p is eq 'x' }}",
        "{{ keychain.db.p | length }}",
        "{{ keychain.db.p | upper }}",
        "{{ keychain.db.p | b64encode }}",
        "{{ ('u:' ~ keychain.db.p) | b64encode }}",
        "{{ ('u:' ~ keychain.db.p).upper() }}",
        "{{ ('u:' ~ keychain.db.p)[:3] }}",
        "{% for x in keychain.db %}{{ x }}{% endfor %}",
        "{{ keychain.db.p | int }}",
    ],
)
def test_what_only_the_value_could_tell_is_refused(template: str) -> None:
    with pytest.raises(TemplateSecurity, match="known only inside of a tool call"):
        evaluate(template, NAMES)


@pytest.mark.parametrize(
    "guard", ["keychain.db.p", "keychain.db.p is defined", "keychain.db.p != none", "'db' in keychain"]
)
def test_a_guard_may_ask_whether_there_is_one(guard: str) -> None:
    assert truth(guard, NAMES)


def test_a_name_that_the_keychain_does_not_have_is_an_error_with_the_nearest() -> None:
    with pytest.raises(TemplateError, match=r"no entry 'dbb'. Did you mean 'db'\?"):
        evaluate("{{ keychain.dbb.password }}", NAMES)


def test_the_record_of_a_decision_names_the_secret_only() -> None:
    assert values_read("ctx.kept.password", NAMES, guard=True) == {
        "ctx.kept.password": "<keychain.db.password>"
    }


def test_what_looks_like_a_reference_in_data_is_data_to_templates() -> None:
    forged = {"kind": "secret_ref", "keychain": "db"}

    assert evaluate("{{ x.keychain }}", {"x": forged}) == "db"
    assert deeper(DB, "x") == {**DB, "field": "x"}
