"""Bombs and escapes: each is refused before it is done, with flat memory, and says why."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from noetl.errors import TemplateError, TemplateLimit, TemplateSecurity
from noetl.expressions import check, evaluate, names_used, truth, values_read

#: Kilobytes that a refusal may add to the process.
GROWTH = 400_000

NAMES: dict[str, Any] = {"x": {"a": 1}, "s": "abc", "many": ["a" * 1000] * 10**6, "n": 5}

DOUBLING = "{% set x = [1] %}" + "{% set x = [x, x] %}" * 40
TUPLES = "{% set x = (1, 2) %}" + "{% set x = (x, x) %}" * 40
TWINS = DOUBLING + "{% set y = [1] %}" + "{% set y = [y, y] %}" * 40


def refused(template: str) -> TemplateError:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TemplateError) as caught:
        evaluate(template, NAMES)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH
    return caught.value


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ 10**(10**9) }}",
        "{{ 10**-(10**9) }}",
        "{{ 9**999 ** 999 }}",
        "{{ (10**4000) * (10**4000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ ('%(a)s' * 100000) % {'a': 'x' * 100000} }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=10**9) }}",
        "{{ ('{0}' * 100000).format('x' * 100000) }}",
        "{{ 'a' | center(10**9) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ 'a'.zfill(10**9) }}",
        "{{ ('\\t' * 100000).expandtabs(10**9) }}",
        "{{ 'a' | indent(10**9) }}",
        "{{ ('a\\n' * 100000) | indent('x' * 1000) }}",
        "{{ ('a ' * 50000) | wordwrap(1, wrapstring='x' * 100000) }}",
        "{{ ('a' * 5000000) | wordwrap }}",
        "{{ (' ' * 90000) | wordwrap(1) }}",
        "{% for i in range(99) %}{{ ('a' * 90000) | wordwrap(1) | length }}{% endfor %}",
        "{% for i in range(99) %}{{ (range(20000) | list | pprint) | length }}{% endfor %}",
        "{{ ('{0}' * 200000).format(1) }}",
        "{{ ('<!--' * 2000000) | striptags }}",
        "{{ many | join }}",
        "{{ ''.join(many) }}",
        "{{ many }}!",
        "{{ many | tojson }}",
        "{{ many | map('upper') | list }}",
        "{{ many | sort }}",
        "{{ many | sum(start='') }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
        "{{ range(10**9) }}",
        "{{ range(10**30) }}",
        "{{ range(0, -10**9, -1) }}",
        "{{ [] | batch(10**9, 0) }}",
        "{{ [1] | batch(10**9, 0) }}",
        "{{ [] | slice(10**9) }}",
        "{{ [1] * 10**9 }}",
        "{{ ('a' * 1000) | replace('a', 'a' * 1000) | replace('a', 'a' * 1000) }}",
        "{{ ('a' * 1000).replace('', 'a' * 100000) }}",
        "{{ ('a,' * 4000000).split(',') }}",
        "{{ ('a' * 9999999) | list }}",
        "{{ ('[' * 4000000) | fromjson }}",
        "{{ 1 | round(10**9, 'ceil') }}",
        "{{ 1 | tojson(indent=10**9) }}",
        DOUBLING + "{{ x | tojson }}",
        DOUBLING + "{{ x }}",
        DOUBLING + "{{ x is lower or x | pprint }}",
        DOUBLING + "{{ [x] | unique }}",
        DOUBLING + "{{ [x, x] | sort }}",
        DOUBLING + "{{ x in [x] }}",
        DOUBLING + "{{ '%r' % x }}{{ '{!r}'.format(x) }}",
        TUPLES + "{{ {'a': 1}.get(x) }}{{ [(x, 1)] | join }}",
        TWINS + "{{ x == y }}",
        TWINS + "{{ x < y }}",
        TWINS + "{{ x is sameas y }}",
        "{% for i in range(5000) %}{{ 'a' * 10000 }}{% endfor %}",
        "{% set a = 'a' * 5000000 %}{% set b = 'a' * 4999999 ~ 'a' %}"
        "{% for i in range(99999) %}{{ '' if a == b }}{% endfor %}",
        "{{ '" + "a" * 300_000 + "' }}",
    ],
)
def test_a_bomb_is_refused_as_a_limit(template: str) -> None:
    assert isinstance(refused(template), TemplateLimit)


@pytest.mark.parametrize(
    "template",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{{ " + "-" * 5000 + "1 }}",
        "{{ 1" + " + 1" * 5000 + " }}",
        "{{ x()" + ".a" * 20000 + " }}",
        "{{ " + "[" * 5000 + "]" * 5000 + " }}",
        "{% if x %}" * 1000 + "{% endif %}" * 1000,
        TUPLES + "{{ {x: 1} }}",
        TUPLES + "{{ {'a': 1} | map(attribute=x) }}",
        TUPLES + "{{ [1] | map(x) }}",
        "{{ ('" + "nan" + "' | float) | int }}{{ [] | slice('nan' | float) }}{{ 'a' * 10**9 }}",
    ],
)
def test_what_is_nested_or_odd_is_a_template_error(template: str) -> None:
    refused(template)
    names_used(template)
    check(template)
    values_read(template, NAMES)


def test_an_undefined_key_that_cannot_be_hashed_in_time_is_just_absent() -> None:
    assert evaluate(TUPLES + "{{ s if n[x] is undefined and {'a': 1}[x] is undefined }}", NAMES) == "abc"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ x.__class__ }}",
        "{{ [].__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ '{0[__class__]}'.format(s) }}",
        "{{ '{a.__class__}'.format(a=x) }}",
        "{{ x | attr('__class__') }}",
        "{{ [x] | map(attribute='__class__') }}",
        "{{ [x] | selectattr('__class__.__name__') }}",
        "{{ [s] | sort(attribute='__class__') }}",
        "{{ f.__globals__ }}",
        "{{ f.__code__.co_consts }}",
        "{{ s.upper.__self__ }}",
        "{{ (x | attr('get')).__func__ }}",
        "{{ range.__init__ }}",
        "{{ 5 .__class__ }}",
        "{{ none.__class__ }}",
        "{% for i in [1] %}{{ loop.cycle.__init__ }}{% endfor %}",
        "{% for i in [1] %}{{ loop.__class__ }}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% include s ignore missing %}",
        "{% import 'os' as os %}",
        "{% from 'os' import path %}",
        "{% extends 'base' %}",
        "{{ kind() }}",
    ],
)
def test_reaching_out_of_the_sandbox_is_refused(template: str) -> None:
    with pytest.raises(TemplateSecurity):
        evaluate(template, {**NAMES, "f": refused, "kind": type})


@pytest.mark.parametrize(
    "template",
    [
        "{{ s.format_map(x) }}",
        "{{ s.translate({}) }}",
        "{{ s.encode() }}",
        "{{ loop._again() }}",
        "{{ x._load() }}",
        "{{ n.to_bytes(4) }}",
    ],
)
def test_methods_that_are_not_listed_do_not_exist(template: str) -> None:
    with pytest.raises(TemplateError, match="undefined"):
        evaluate(template, NAMES)


def test_keys_that_look_internal_are_keys() -> None:
    assert evaluate("{{ x.__typename }}", {"x": {"__typename": "User"}}) == "User"


def test_ordinary_work_fits_the_limits() -> None:
    rows = [{"id": i, "name": f"row {i}"} for i in range(20_000)]
    names = {"rows": rows, "text": "x" * 900_000, "json": "[" + ",".join(["1"] * 100_000) + "]"}
    assert evaluate("{{ rows | map(attribute='id') | sum }}", names) == sum(range(20_000))
    assert (
        len(evaluate("{% for row in rows %}{{ row.id }}: {{ row.name | upper }}\n{% endfor %}", names))
        > 20_000
    )
    assert len(evaluate('{{ rows | tojson | replace("\'", "\'\'") }}', names)) > 500_000
    assert evaluate("{{ rows | selectattr('id', 'gt', 19998) | list }}", names) == [rows[-1]]
    assert evaluate("{{ text | upper | trim | length }}", names) == 900_000
    assert evaluate("{{ json | fromjson | length }}", names) == 100_000
    assert truth("rows != [] and rows | length > 3", {"rows": rows * 50})


def test_budgets_belong_to_one_rendering() -> None:
    template = "{% for i in range(90000) %}{% endfor %}ok"
    assert [evaluate(template, {}) for _ in range(4)] == ["ok"] * 4
