"""Templates to values, guards to yes or no, and templates that came out undefined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from noetl.errors import TemplateError
from noetl.expressions.grammar import Path, is_template, texts
from noetl.expressions.limits import Meter
from noetl.expressions.members import Undefined
from noetl.expressions.output import BeginQuoting, QuotedText
from noetl.expressions.template import CompiledTemplate, compile_template, shorten
from noetl.expressions.values import ATOMS, text
from noetl.facts.json import Json
from noetl.facts.reference import Load, loaded
from noetl.facts.warnings import Warned

#: Called with a template whose whole expression came out undefined.
Warn: TypeAlias = Callable[[str], None]

#: Words of mixed text that mean no in a guard, in any case.
_NO = frozenset({"false", "no", "off", "0", "", "none", "null"})


def evaluate(
    template: Json, names: Mapping[str, Any], *, load: Load | None = None, warn: Warn | None = None
) -> Json:
    """Render every string in `template`, and nothing that comes out of one.

    A string that is one `{{ expression }}` yields a value of its own type (undefined: null, with a
    warning), other templates yield text, strings without a template themselves. `names` is asked
    for the names that are used, when they are used. References (`facts.reference`) are loaded when
    something looks into them; a plain chain that ends at one yields the reference itself. In mixed
    text that is a `QuotedText` values are written as its port says.

    Raises `TemplateError`, `TemplateLimit` or `TemplateSecurity`; what `load` and `names` raise of
    `NoetlError` passes through.
    """
    if isinstance(template, str):
        if not is_template(template):
            return template
        begin = template.begin if isinstance(template, QuotedText) else None
        return _settle(compile_template(template), names, load, warn, begin)
    if isinstance(template, Mapping):
        return {
            _key(key, names, load, warn): evaluate(value, names, load=load, warn=warn)
            for key, value in template.items()
        }
    if isinstance(template, list | tuple):
        return [evaluate(item, names, load=load, warn=warn) for item in template]
    return template


def _key(key: Any, names: Mapping[str, Any], load: Load | None, warn: Warn | None) -> Any:
    if not isinstance(key, str) or not is_template(key):
        return key
    rendered = evaluate(key, names, load=load, warn=warn)
    if rendered is None or isinstance(rendered, str | int | float):
        return text(rendered, Meter())
    raise TemplateError(f"The template `{shorten(key)}` of a key must yield a text.", key)


def _settle(
    code: CompiledTemplate,
    names: Mapping[str, Any],
    load: Load | None,
    warn: Warn | None,
    begin: BeginQuoting | None = None,
) -> Json:
    value = code.value(names, load, begin)
    if not isinstance(value, Undefined):
        return value
    if warn is not None:
        warn(code.source)
    return None


def evaluate_at(
    place: str,
    template: Json,
    names: Mapping[str, Any],
    warnings: list[Warned],
    *,
    load: Load | None = None,
) -> Json:
    """`evaluate`, with every template in it that became null added to `warnings`; `place` is where
    it stands."""
    sources: list[str] = []
    value = evaluate(template, names, load=load, warn=sources.append)
    if sources:
        warnings += [
            {"template": shorten(text), "place": _place_text(place, path)}
            for path, text in texts(template)
            if text in sources
        ]
    return value


def _place_text(place: str, path: Path) -> str:
    below = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{place}{below}" if place else below.removeprefix(".")


def sentence(source: str) -> str:
    """What is to be said of a template that became null, of whose place nothing more is known."""
    return f"The template `{shorten(source)}` is undefined and became null."


def truth(
    template: Json, names: Mapping[str, Any], *, load: Load | None = None, warn: Warn | None = None
) -> bool:
    """Whether a guard holds. A string without `{{` and `{%` is itself an expression.

    Values are true as in Python; mixed text is false when it reads `false`, `no`, `off`, `0`,
    `none`, `null` or nothing. Raises as `evaluate` does.
    """
    if not isinstance(template, str):
        return _holds(evaluate(template, names, load=load, warn=warn), load)
    if not template.strip():
        return False
    code = compile_template(template, bare=not is_template(template))
    value = _settle(code, names, load, warn)
    if code.body is not None:
        return str(value).strip().lower() not in _NO
    return _holds(value, load)


def _holds(value: Json, load: Load | None) -> bool:
    # Of what is kept by reference too: an empty list may have a name of its own.
    return bool(value if load is None or type(value) in ATOMS else loaded(value, load))
