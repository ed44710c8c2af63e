"""Filters over lists and mappings. They return complete lists, never lazy ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import groupby, takewhile
from operator import methodcaller
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from jinja2 import filters as jinja

from noetl.expressions.limits import Broken
from noetl.expressions.members import Undefined, Verb
from noetl.expressions.operators import add
from noetl.expressions.rendering import Rendering, make_listing
from noetl.expressions.values import kind_of, measure, to_comparable, to_json, to_list
from noetl.facts.reference import Lazy

#: A dotted attribute of the elements, or the elements themselves.
Attr: TypeAlias = str | int | None


class Group(NamedTuple):
    """One group of `groupby`: unpacks to its two parts, and knows them by name."""

    grouper: Any
    list: list[Any]


def _make_getter(run: Rendering, attribute: Attr, default: Any = None) -> Callable[[Any], Any]:
    """Reads a dotted attribute ("a.b.0") of an element; the element itself where there is none."""
    if attribute is None:
        return run.resolve
    if not isinstance(attribute, str | int):
        raise Broken(f"names an attribute by {kind_of(attribute)}; a text or a number is needed")
    reader: Any = SimpleNamespace(getitem=run.item)
    return jinja.make_attrgetter(reader, attribute, default=default)


def _make_key(run: Rendering, attribute: Attr, exact: bool, several: bool = False) -> Callable[[Any], Any]:
    """What elements are ordered by. Paid for by size, since comparing walks it."""
    names = str(attribute).split(",") if several and attribute else [attribute]
    getters = [_make_getter(run, name) for name in names]

    def get(element: Any) -> Any:
        run.work(2)
        keys = [_fold(run, getter(element), exact) for getter in getters]
        return keys if several else keys[0]

    return get


def _fold(run: Rendering, value: Any, exact: bool) -> Any:
    value = to_comparable(value, run)
    if not isinstance(value, str):
        return value
    # All keys are there at once.
    run.text(len(value))
    return value if exact else value.lower()


def _attr(run: Rendering, value: Any, name: str) -> Any:
    if not isinstance(name, str):
        raise Broken(f"names an attribute by {kind_of(name)}; a text is needed")
    return run.item(value, name)


def _batch(run: Rendering, value: Any, linecount: Any, fill_with: Any = None) -> list[list[Any]]:
    elements = to_list(run.elements(value), run)
    if not isinstance(linecount, int) or linecount < 1:
        raise Broken("cannot batch: the number of elements must be 1 or more")
    run.items(len(elements) + (linecount if fill_with is not None else 0))
    return list(jinja.do_batch(elements, linecount, fill_with))


def _slice(run: Rendering, value: Any, slices: Any, fill_with: Any = None) -> list[list[Any]]:
    if not isinstance(slices, int) or slices < 1:
        raise Broken("cannot slice: the number of slices must be 1 or more")
    run.work(slices)
    elements = to_list(run.elements(value), run)
    run.items(len(elements))
    return list(jinja.sync_do_slice(elements, slices, fill_with))


def _default(_: Rendering, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    return default_value if isinstance(value, Undefined) or (boolean and not value) else value


def _dictsort(
    run: Rendering, value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[tuple[Any, Any]]:
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, Mapping):
        raise Broken(f"cannot sort the keys of {kind_of(value)}")
    if by == "key":
        measure(value, run)
    else:
        value = to_comparable(value, run)
    return jinja.do_dictsort(value, case_sensitive, by, reverse)  # type: ignore[arg-type]  # checked there


def _make_pick(index: int, name: str) -> Verb:
    def pick(run: Rendering, value: Any) -> Any:
        elements = run.elements(value)
        return run.resolve(elements[index]) if elements else Undefined(name)

    return pick


def _groupby(
    run: Rendering, value: Any, attribute: str | int, default: Any = None, case_sensitive: bool = False
) -> list[Group]:
    get = _make_getter(run, attribute, default)
    key = _make_key(run, None, case_sensitive)
    ordered = sorted(to_list(run.elements(value), run), key=lambda element: key(get(element)))
    grouped = groupby(ordered, key=lambda element: key(get(element)))
    groups = [list(members) for _, members in grouped]
    return [Group(get(members[0]), members) for members in groups]


def _items(run: Rendering, value: Any) -> Any:
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, Mapping):
        raise Broken(f"cannot list the items of {kind_of(value)}")
    return make_listing(methodcaller("items"))(run, value)


def _length(run: Rendering, value: Any) -> int:
    return len(run.elements(value) if not isinstance(value, Mapping) else value)


def _list(run: Rendering, value: Any) -> list[Any]:
    elements = to_list(run.elements(value), run)
    run.items(len(elements))
    return list(elements)


def _flatten(run: Rendering, value: Any) -> list[Any]:
    """The elements of the elements, one level down."""
    found: list[Any] = []
    for element in run.elements(value):
        inner = run.elements(element)
        run.items(len(inner))
        found.extend(inner)
    return found


def _merge(run: Rendering, value: Any) -> Any:
    """The elements as one: mappings merged deeply, lists joined, else the last; nulls are
    skipped."""
    return _merge_values(run, [run.resolve(element) for element in run.elements(value)])


def _merge_values(run: Rendering, values: list[Any]) -> Any:
    kept = [value for value in values if value is not None and not isinstance(value, Undefined)]
    if not kept:
        return None
    kind = next((kind for kind in (Mapping, list | Lazy) if isinstance(kept[-1], kind)), None)
    if kind is None:
        return kept[-1]
    # What is of another kind is replaced, with all that stands before it.
    alike = list(takewhile(lambda value: isinstance(value, kind), reversed(kept)))[::-1]
    run.items(sum(len(value) for value in alike))
    if kind is not Mapping:
        return [element for value in alike for element in value]
    inner: dict[str, list[Any]] = {}
    for value in alike:
        for key, item in value.items():
            inner.setdefault(key, []).append(item)
    return {key: _merge_values(run, [run.resolve(item) for item in items]) for key, items in inner.items()}


def _find_verb(what: str, known: Mapping[str, Verb], name: Any) -> Verb:
    """The filter or test of that name. Raises Broken."""
    if not isinstance(name, str) or name not in known:
        shown = name[:60] if isinstance(name, str) else kind_of(name)
        raise Broken(f"names the {what} '{shown}', which does not exist")
    return known[name]


def _map(run: Rendering, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    if not args and "attribute" in kwargs:
        get = _make_getter(run, kwargs["attribute"], kwargs.get("default"))
        return [_pay_and_call(run, get, element) for element in run.elements(value)]
    if not args:
        raise Broken("cannot map: 'map' needs the name of a filter, or attribute=")
    verb = _find_verb("filter", run.filters, args[0])
    rest = args[1:]
    return [
        _pay_and_call(run, lambda item: verb(run, item, *rest, **kwargs), run.resolve(element))
        for element in run.elements(value)
    ]


def _pay_and_call(run: Rendering, function: Callable[[Any], Any], element: Any) -> Any:
    run.work(2)
    return function(element)


def _make_choice(by_attribute: bool, wanted: bool) -> Verb:
    def choose(run: Rendering, value: Any, *args: Any) -> list[Any]:
        get: Callable[[Any], Any] = run.resolve
        if by_attribute:
            if not args:
                raise Broken("cannot select: the name of an attribute is missing")
            get, args = _make_getter(run, args[0]), args[1:]
        verb: Verb = _find_verb("test", run.tests, args[0]) if args else lambda _, item: item
        return [
            element
            for element in run.elements(value)
            if _pay_and_call(run, lambda item: bool(verb(run, get(item), *args[1:])) is wanted, element)
        ]

    return choose


def _make_extreme(function: Callable[..., Any]) -> Verb:
    def extreme(run: Rendering, value: Any, case_sensitive: bool = False, attribute: Attr = None) -> Any:
        elements = run.elements(value)
        if not elements:
            return Undefined(function.__name__)
        return run.resolve(function(elements, key=_make_key(run, attribute, case_sensitive)))

    return extreme


def _reverse(run: Rendering, value: Any) -> Any:
    if isinstance(value, str):
        run.text(len(value))
        return value[::-1]
    return _list(run, value)[::-1]


def _sort(
    run: Rendering, value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: Attr = None
) -> list[Any]:
    several = isinstance(attribute, str) and "," in attribute
    key = _make_key(run, attribute, case_sensitive, several)
    return sorted(to_list(run.elements(value), run), key=key, reverse=reverse)


def _sum(run: Rendering, value: Any, attribute: Attr = None, start: Any = 0) -> Any:
    get = _make_getter(run, attribute)

    def plus(total: Any, element: Any) -> Any:
        run.work(1)
        return add(run, total, get(element))

    return reduce(plus, run.elements(value), start)


def _unique(run: Rendering, value: Any, case_sensitive: bool = False, attribute: Attr = None) -> Any:
    key = _make_key(run, attribute, case_sensitive)
    found: dict[Any, Any] = {}
    for element in run.elements(value):
        one = key(element)
        is_hashable = not isinstance(one, list | tuple | Mapping | Lazy)
        found.setdefault(one if is_hashable else ("json", to_json(one, run)), element)
    return list(found.values())


LIST_FILTERS: Mapping[str, Verb] = {
    "attr": _attr,
    "batch": _batch,
    "count": _length,
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "first": _make_pick(0, "first"),
    "flatten": _flatten,
    "groupby": _groupby,
    "items": _items,
    "last": _make_pick(-1, "last"),
    "length": _length,
    "list": _list,
    "map": _map,
    "max": _make_extreme(max),
    "merge": _merge,
    "min": _make_extreme(min),
    "reject": _make_choice(by_attribute=False, wanted=False),
    "rejectattr": _make_choice(by_attribute=True, wanted=False),
    "reverse": _reverse,
    "select": _make_choice(by_attribute=False, wanted=True),
    "selectattr": _make_choice(by_attribute=True, wanted=True),
    "slice": _slice,
    "sort": _sort,
    "sum": _sum,
    "unique": _unique,
}
