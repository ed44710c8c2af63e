"""A template says the same of a value, whichever parts of it are kept by reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any, overload

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.expressions import evaluate, truth
from noetl.expressions.scope import of_task
from noetl.facts.json import Json
from noetl.facts.reference import MANIFEST, RESULT_REF, Lazy, open_references
from noetl.results.blocks import PartBlocks
from tests.budget import examples

KEYS = st.sampled_from(["a", "b", "rows", "data", "kind", "count"])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, "x", "Yz", "", "1"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
rows = st.lists(st.fixed_dictionaries({"a": st.integers(0, 5), "b": scalars}), min_size=1, max_size=6)


class Rows(Lazy):
    """Reads two items at a time."""

    def __init__(self, items: list[Json]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        return self._items[index]

    def pages(self) -> Iterator[list[Json]]:
        for start in range(0, len(self._items), 2):
            yield self._items[start : start + 2]


class Store:
    """Values by name; each is handed out as it was put."""

    def __init__(self) -> None:
        self._values: list[Json] = []

    def put(self, value: Json) -> dict[str, Json]:
        self._values.append(value)
        return {"kind": RESULT_REF, "ref": f"noetl://test/{len(self._values) - 1}", "extracted": {}}

    def __call__(self, reference: Mapping[str, Any], /) -> Json:
        if reference["kind"] == MANIFEST:
            return PartBlocks(reference, self)
        return self._values[int(reference["ref"].rpartition("/")[2])]


def kept(value: Json, store: Store, ways: Iterator[int]) -> Json:
    """`value`, some of whose parts are kept by reference, in any of the ways that there are."""
    if isinstance(value, dict):
        value = {key: kept(item, store, ways) for key, item in value.items()}
    elif isinstance(value, list):
        value = [kept(item, store, ways) for item in value]
    match next(ways):
        case 0:
            return store.put(value)
        case 1 if isinstance(value, list):
            return store.put(Rows(value))
        case 2 if isinstance(value, list):
            return manifest(value, store, ways)
        case 3 if isinstance(value, list):
            return store.put(manifest(value, store, ways))
        case _:
            return value


def manifest(items: list[Json], store: Store, ways: Iterator[int]) -> Json:
    cut = min(next(ways), len(items))
    last = items[cut:]
    reference = store.put(Rows(last) if next(ways) % 2 else last)
    parts = [{"count": cut, "items": items[:cut]}, {"count": len(last), "ref": reference}]
    return {"kind": MANIFEST, "count": len(items), "parts": parts}


#: How each part is kept, in the order in which they are met, over and over.
choices = st.lists(st.integers(0, 5), min_size=1, max_size=12)

_CHAINS = """
    v ; w ; v.a ; v.rows ; v['b'] ; v.data ; v.data.rows ; v[0] ; v[-1] ; w[0].a ; w[-1].b ;
    w[1:3] ; w[:2] ; v[1:] ; w[::-1] ; v.a.b ; v.rows[0] ; v.kind ; v.count ; x.rows ;
    x.data.a ; iter.w[0]
"""
chains = st.sampled_from([one.strip() for one in _CHAINS.split(";")])
_FILTERS = """
    length ; first ; last ; list ; reverse ; sort ; tojson ; string ; default('d') ;
    unique | list ; map(attribute='a') ; map(attribute='b') | list ; sum ;
    sum(attribute='a') ; join('-') ; join(',', 'a') ; select ; selectattr('a') ;
    selectattr('a', '>', 2) ; rejectattr('b') ; min ; max ; int ; d(1, true) ;
    max(attribute='a') ; min(attribute='a') ; sort(attribute='a') ; groupby('a') ; batch(2) ;
    slice(2) ; items ; dictsort ; urlencode ; pprint ; map('length') ; map('string') ;
    select('in', [1, 'x']) ; count ; dictsort(by='value') ; unique(attribute='a') ;
    sort(attribute='a,b') ; reject('none') ; map('tojson')
"""
filters = st.sampled_from([one.strip() for one in _FILTERS.split(";")])
expressions = st.recursive(
    chains | st.sampled_from(["1", "'x'", "none", "[]", "[1, 'x']", "{'a': 1}"]),
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(["==", "!=", "<", "in", "not in", "+", "and", "or", "~"]),
            inner,
        ),
        st.builds("({} | {})".format, inner, filters),
        st.builds(
            "({} is {})".format,
            inner,
            st.sampled_from(
                [
                    "defined",
                    "none",
                    "string",
                    "mapping",
                    "iterable",
                    "sequence",
                    "number",
                    "sameas([])",
                    "in w",
                ]
            ),
        ),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}}}".format, inner),
        st.builds("({})[{}]".format, inner, st.sampled_from(["0", "-1", "1:", "'a'"])),
        st.builds(
            "({}).{}".format,
            inner,
            st.sampled_from(["a", "rows", "items()", "get('a')", "copy()", "index(1)", "count(1)"]),
        ),
    ),
    max_leaves=4,
)
templates = st.one_of(
    st.builds("{{{{ {} }}}}".format, expressions),
    st.builds("{{{{ {} }}}}!".format, expressions),
    st.builds(
        "{{% for i in {} %}}{{{{ loop.index }}}}{{{{ i }}}}{{{{ i.a }}}}{{{{ i is mapping }}}}|{{% else "
        "%}}none{{% endfor %}}".format,
        expressions,
    ),
    st.builds(
        "{{% for k, i in {} | dictsort %}}{{{{ k }}}}{{{{ i is string }}}}{{{{ i }}}}{{% endfor %}}".format,
        chains,
    ),
    st.builds("{{% set y = {} %}}{{{{ y is defined and y }}}}{{{{ y.a }}}}".format, expressions),
)


def outcome(template: str, names: Mapping[str, Any], store: Store) -> Json:
    try:
        return open_references(evaluate(template, names, load=store), store)
    except TemplateError as error:
        return type(error)


def names_of(v: Json, w: Json) -> dict[str, Any]:
    return {"v": v, "w": w, "x": of_task(v), "iter": {"w": w}}


@settings(max_examples=examples(200))
@given(choices, values | rows, rows, templates)
def test_a_template_yields_the_same_whatever_is_kept_by_reference(
    numbers: list[int], v: Json, w: Json, template: str
) -> None:
    store, ways = Store(), cycle(numbers)
    by_reference = names_of(kept(v, store, ways), kept(w, store, ways))
    expected = outcome(template, names_of(v, w), store)
    found = outcome(template, by_reference, store)
    assert (type(found), found) == (type(expected), expected)


@given(choices, values | rows, rows, expressions)
def test_a_guard_holds_whatever_is_kept_by_reference(
    numbers: list[int], v: Json, w: Json, expression: str
) -> None:
    store, ways = Store(), cycle(numbers)
    by_reference = names_of(kept(v, store, ways), kept(w, store, ways))
    verdicts = []
    for names in (names_of(v, w), by_reference):
        try:
            verdicts.append(truth(expression, names, load=store))
        except TemplateError as error:
            verdicts.append(type(error))
    assert verdicts[0] == verdicts[1]
