"""`key`: the forms it may have, what becomes of them, and what is no key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled
from noetl.net.codec import digest, from_json, to_json
from noetl.net.model import KeyTemplate, Net

NetOf = Callable[[str], Net]
Compile = Callable[[str], Compiled]
STEP = "workload: {order: {id: 7}, shop: oslo}\nworkflow: [{step: start, tool: {kind: noop}}]\n"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ('"{{ order.id }}"', KeyTemplate("{{ order.id }}")),
        ('{value: "{{ order.id }}"}', KeyTemplate("{{ order.id }}", "reject")),
        ('{value: "{{ shop }}/{{ order.id }}", on_conflict: return}', None),
        ("nightly", KeyTemplate("nightly")),
    ],
)
def test_a_text_is_the_value_and_conflicts_are_rejected_unless_said(
    net_of: NetOf, key: str, meant: KeyTemplate | None
) -> None:
    net = net_of(f"key: {key}\n{STEP}")
    assert net.key == (meant or KeyTemplate("{{ shop }}/{{ order.id }}", "return"))


def test_nets_keep_their_key_and_those_without_keep_their_digest(net_of: NetOf) -> None:
    plain, keyed = net_of(STEP), net_of(f"key: '{{{{ order.id }}}}'\n{STEP}")
    assert "key" not in to_json(plain)
    for net in (plain, keyed):
        assert from_json(to_json(net)) == net
    assert digest(plain) != digest(keyed)


FAULTS = {
    "{on_conflict: return}": (Code.MISSING, "the key has no value"),
    "{value: a, on_conflict: retrun}": (Code.VALUE, "`on_conflict` is 'retrun'"),
    "{valeu: a}": (Code.MISSPELT_KEY, "the key 'valeu' means nothing here"),
    "7": (Code.TYPE, "`key` must be a text, or a mapping with value"),
    "[a]": (Code.TYPE, "`key` must be a text, or a mapping with value"),
    '" "': (Code.VALUE, "the key is empty"),
    '".."': (Code.VALUE, "means another thing in an address"),
    '"a\\nb"': (Code.VALUE, "cannot be printed (U+000A)"),
    "x" * 201: (Code.VALUE, "the key has 201 characters, more than 200"),
    '"{{ order.id"': (Code.TEMPLATE, "template"),
    '"{{ ordre.id }}"': (Code.UNDEFINED, "nothing defines 'ordre'"),
    '"{{ ctx.n }}"': (Code.UNDEFINED, "nothing defines 'ctx'"),
    '"{{ start }}"': (Code.UNDEFINED, "nothing defines 'start'"),
    '"{{ keychain.db.user }}"': (Code.VALUE, "the key reads the secret keychain.db.user"),
    '"k-{{ workload.token }}"': (Code.VALUE, "the key reads the secret workload.token"),
    '{value: "{{ to.pin }}"}': (Code.VALUE, "the key reads the secret to.pin"),
}


@pytest.mark.parametrize("key", FAULTS, ids=lambda key: key[:30])
def test_what_is_no_key_is_a_problem_where_it_stands(body: Compile, key: str) -> None:
    code, message = FAULTS[key]
    more = "keychain: [{name: db, kind: credential, credential: db}]\n"
    more += "inputs: {token: {secret: true}, to: {properties: {pin: {secret: true}}}}\n"
    found = body(f"key: {key}\n{more}{STEP}").problems
    assert [one.code for one in found] == [code], found
    assert message in found[0].message
    assert (found[0].line, found[0].path.partition(".")[0]) == (4, "key")


def test_what_only_the_key_reads_is_read(body: Compile) -> None:
    found = body(
        f"key: '{{{{ inputs.shop }}}}'\ninputs: {{shop: string}}\n{STEP.replace(', shop: oslo', '')}"
    )
    assert found.net is not None
    assert found.net.key == KeyTemplate("{{ workload.shop }}"), "as in all that is rendered before steps"
