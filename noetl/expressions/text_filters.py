"""Filters that read or make text. Other values are taken as mixed text would print them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from jinja2 import filters as jinja
from jinja2.nodes import EvalContext
from markupsafe import escape

from noetl.expressions.limits import Broken, OverLimit, check_width
from noetl.expressions.members import Undefined, Verb
from noetl.expressions.methods import TEXT_METHODS, join, percent, replace
from noetl.expressions.rendering import SANDBOX, Rendering
from noetl.expressions.values import mark_secret, measure, text, to_comparable, to_json
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import Lazy
from noetl.facts.secret import change_form, is_secret

#: Characters that filters of Python code (wrapping, tags, links) take: they are slow, some
#: quadratic.
_MAX_SLOW = 100_000
#: What Jinja's own filters want to know of their surroundings: nothing is escaped.
_CONTEXT: Final = EvalContext(SANDBOX)


def _text(run: Rendering, value: Any) -> str:
    rendered = text(value, run)
    run.text(len(rendered))
    return rendered


def _short(run: Rendering, value: Any) -> str:
    rendered = _text(run, value)
    if len(rendered) > _MAX_SLOW:
        raise OverLimit(f"takes a text of {len(rendered)} characters through a filter for {_MAX_SLOW}")
    run.work(len(rendered) // 16)
    return rendered


def _on_text(function: Callable[..., Any], read: Callable[[Rendering, Any], str] = _text) -> Verb:
    return lambda run, value, *args, **kwargs: function(read(run, value), *args, **kwargs)


def _escape(run: Rendering, value: Any) -> str:
    rendered = _text(run, value)
    run.text(6 * len(rendered))
    return str(escape(rendered))


def _format(run: Rendering, value: Any, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise Broken("cannot be formatted: give values by place or by name, not both")
    return percent(run, _text(run, value), kwargs or args)


def _indent(
    run: Rendering, value: Any, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    rendered = _text(run, value)
    if isinstance(width, int):
        check_width(width)
    size = len(width) if isinstance(width, str) else max(width, 0)
    run.text(len(rendered) + (len(rendered.splitlines()) + 2) * (size + 1))
    return jinja.do_indent(rendered, width, first, blank)


def _join(run: Rendering, value: Any, d: Any = "", attribute: str | int | None = None) -> str:
    if attribute is None:
        elements: Any = map(run.resolve, run.elements(value))
    else:
        elements = run.filters["map"](run, value, attribute=attribute)
    return join(run, _text(run, d), elements)


def _replace(run: Rendering, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    return replace(run, _text(run, value), _text(run, old), _text(run, new), -1 if count is None else count)


def _wordwrap(
    run: Rendering,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    rendered = _short(run, value)
    # Wrapping is the slowest of all: two microseconds for each character, and for blanks eleven by
    # the width.
    run.work(len(rendered) * (2 + 12 // max(width, 1)))
    if wrapstring is not None:
        run.text(len(wrapstring) * (len(rendered) + 1))
    return jinja.do_wordwrap(SANDBOX, rendered, width, break_long_words, wrapstring, break_on_hyphens)


def _urlencode(run: Rendering, value: Any) -> str:
    if is_secret(value):
        return mark_secret(value, run, "url")
    if isinstance(value, Mapping | list | tuple | Lazy):
        value = to_comparable(value, run)
        run.text(12 * measure(value, run))
        return jinja.do_urlencode(value)
    rendered = _text(run, value)
    run.text(12 * len(rendered))
    return jinja.do_urlencode(change_form(rendered, "url"))


def _urlize(
    run: Rendering,
    value: Any,
    trim_url_limit: int | None = None,
    nofollow: bool = False,
    target: str | None = None,
    rel: str | None = None,
) -> str:
    return jinja.do_urlize(_CONTEXT, _short(run, value), trim_url_limit, nofollow, target, rel)


def _xmlattr(run: Rendering, value: Any, autospace: bool = True) -> str:
    if isinstance(value, Undefined):
        return ""
    if not isinstance(value, Mapping):
        raise Broken("cannot make attributes: 'xmlattr' needs a mapping")
    value = to_comparable(value, run)
    run.text(6 * measure(value, run))
    return str(jinja.do_xmlattr(_CONTEXT, value, autospace))


def _pprint(run: Rendering, value: Any) -> str:
    # Pretty printing is slow Python code: what it prints is paid for like a text of a slow filter.
    run.work(len(_short(run, to_json(value, run))))
    return jinja.do_pprint(None if isinstance(value, Undefined) else to_comparable(value, run))


def _to_json(run: Rendering, value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= 16:
        raise OverLimit(f"indents JSON by {indent}; 16 is the most")
    return to_json(value, run, indent)


def _from_json(run: Rendering, value: Any) -> Json:
    source = _text(run, value)
    run.work(len(source) // 4)
    try:
        return json.loads(source, parse_constant=_no_constant)
    except ValueError as error:
        raise Broken(f"cannot read JSON: {error}") from error


def _no_constant(name: str) -> Json:
    raise Broken(f"cannot read JSON: {name} is not JSON")


def _b64decode(run: Rendering, value: Any) -> str:
    try:
        return base64.b64decode(_text(run, value), validate=True).decode()
    except ValueError as error:
        raise Broken(f"cannot decode base64 to text: {error}") from error


TEXT_FILTERS: Mapping[str, Verb] = {
    "b64decode": _b64decode,
    "b64encode": _on_text(lambda value: base64.b64encode(value.encode()).decode("ascii")),
    "capitalize": _on_text(str.capitalize),
    "center": lambda run, value, width=80: TEXT_METHODS["center"](run, _text(run, value), width),
    "e": _escape,
    "escape": _escape,
    "filesizeformat": lambda _, value, binary=False: jinja.do_filesizeformat(value, binary),
    "forceescape": _escape,
    "format": _format,
    "from_json": _from_json,
    "fromjson": _from_json,
    "indent": _indent,
    "join": _join,
    "lower": _on_text(str.lower),
    "pprint": _pprint,
    "replace": _replace,
    "safe": _text,
    "sha256": _on_text(lambda value: hashlib.sha256(value.encode()).hexdigest()),
    "string": _text,
    "striptags": _on_text(jinja.do_striptags, _short),
    "title": _on_text(jinja.do_title, _short),
    "to_json": _to_json,
    "tojson": _to_json,
    "trim": lambda run, value, chars=None: _text(run, value).strip(chars),
    "truncate": _on_text(partial(jinja.do_truncate, SANDBOX)),
    "upper": _on_text(str.upper),
    "urlencode": _urlencode,
    "urlize": _urlize,
    "wordcount": _on_text(lambda value: len(value.split()), _short),
    "wordwrap": _wordwrap,
    "xmlattr": _xmlattr,
}
