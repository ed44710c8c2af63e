"""Declared inputs: document to net, with everything that contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from noetl.dsl.compile.context import Context
from noetl.dsl.document.inputs import SECRET_WORD, TYPE_WORDS, InputDeclaration
from noetl.dsl.document.texts import holds_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.facts.json import Json
from noetl.facts.secret import is_secret_name
from noetl.net.forms import form_to_json
from noetl.net.input_values import find_value_faults, in_order, settle
from noetl.net.inputs import ORDERED, SIZED, TYPES, Input, InputType
from noetl.net.model import Template
from noetl.net.patterns import pattern_fault
from noetl.net.secret_inputs import find_open_secrets

#: What belongs to an input itself, not to what is in it.
_OF_INPUTS: Final = ("default", "order")
_NO_SECRETS: Final = "ask for the name of a credential instead"


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declaration with its name, and where it stands."""

    name: str
    said: InputDeclaration
    path: Path

    def has(self, key: str) -> bool:
        """Whether the document gives the key, if only null."""
        return key in self.said.model_fields_set


def compile_inputs(context: Context) -> tuple[tuple[Input, ...], dict[str, Template]]:
    """The inputs in the order in which they are shown, and what the workload is with them: of those
    without a default null."""
    workload = context.document.workload or {}
    found = list(_find_declared(context, context.document.inputs, ("inputs",)))
    made = [_compile_input(context, one, workload, None) for one in found]
    for one, compiled in zip(found, made, strict=True):
        _warn_of_plain_text(context, one, compiled, "write secret: true")
    defaults = {one.name: one.said.default for one in found if one.name not in workload}
    return _in_order(found, made), {**defaults, **workload}


def compile_form(
    context: Context, forms: Any, path: Path, step: str | None
) -> tuple[tuple[Input, ...], dict[str, Template]]:
    """What people fill in, declared at `path` of a task of the step, and the defaults that there
    are. What they say stands in the log, and so is no secret."""
    found = list(_find_declared(context, forms, path))
    made = [_compile_input(context, one, {}, step) for one in found]
    for one, compiled in zip(found, made, strict=True):
        if holds_template(form_to_json([compiled], {})["inputs"]):
            message = f"the declaration of {quote_value(one.name)} in a form holds a template"
            context.report.add(Code.VALUE, one.path, message, "only `default` can be one", at_key=True)
        if _holds_secret(compiled):
            message = f"what people fill in stands in the log, and {quote_value(one.name)} is a secret"
            context.report.add(Code.INPUT, one.path, message, _NO_SECRETS, at_key=True)
        else:
            _warn_of_plain_text(context, one, compiled, _NO_SECRETS)
    return _in_order(found, made), {
        one.name: one.said.default for one in found if one.said.default is not None
    }


def _in_order(found: list[_Declared], made: list[Input]) -> tuple[Input, ...]:
    pairs = zip(found, made, strict=True)
    return tuple(one for _, one in sorted(pairs, key=lambda pair: pair[0].said.order or 0))


def _holds_secret(one: Input) -> bool:
    return one.secret or any(map(_holds_secret, (*one.properties, *([one.items] if one.items else []))))


def _warn_of_plain_text(context: Context, one: _Declared, made: Input, hint: str) -> None:
    if made.defaulted or made.secret or made.type not in ("string", "any"):
        return
    if is_secret_name(one.name):
        message = f"what is given for `{one.name}` stands in the log as plain text"
        context.report.add(Code.IN_PLAIN_TEXT, one.path, message, hint, at_key=True)


def _find_declared(context: Context, forms: Any, path: Path) -> Iterator[_Declared]:
    """Those whose names can be used, each once."""
    seen: set[str] = set()
    for one in _name_all(context, forms, path):
        at_key = isinstance(forms, dict)
        at = one.path if at_key else (*one.path, "name")
        if one.name in seen:
            message = f"an input {quote_value(one.name)} is declared already"
            context.report.add(Code.DUPLICATE_NAME, at, message, "declare each input once")
        elif not one.name.strip() or "." in one.name or one.name.startswith("+"):
            message = f"an input cannot be called {quote_value(one.name)}"
            hint = "leave out dots, which separate names, and a `+` in front"
            context.report.add(Code.NAME, at, message, hint, at_key=at_key)
        else:
            seen.add(one.name)
            yield one


def _name_all(context: Context, forms: Any, path: Path) -> Iterator[_Declared]:
    if isinstance(forms, dict):
        for name, form in forms.items():
            yield _Declared(name, _as_declaration(form), (*path, name))
        return
    for index, said in enumerate(forms or ()):
        if said.name is None:
            context.report.missing((*path, index), "name", "the input has no name", "add name: <name>")
        else:
            yield _Declared(said.name, said, (*path, index))


def _as_declaration(form: Any) -> InputDeclaration:
    """A text is the type."""
    return InputDeclaration(type=form) if isinstance(form, str) else form


def _compile_input(
    context: Context, one: _Declared, workload: dict[str, Template], step: str | None
) -> Input:
    made = _compile_declaration(context, one)
    at = ("workload", one.name) if one.name in workload else (*one.path, "default")
    default = workload.get(one.name, one.said.default)
    if one.has("default"):
        context.use((*one.path, "default"), one.said.default, step)
    if one.has("default") and one.name in workload:
        line = context.line(("workload", one.name))
        message = f"input {quote_value(one.name)} has two defaults: one here, one in workload (line {line})"
        context.report.add(Code.INPUT, (*one.path, "default"), message, "leave one of them out")
    if default is not None:
        _check_default(context, made, default, at)
        if made.required:
            message = f"`required` has no effect: input {quote_value(one.name)} has a default"
            context.report.add(Code.IGNORED, (*one.path, "required"), message, "leave it out")
    return replace(made, defaulted=default is not None, required=made.required and default is None)


def _check_default(context: Context, one: Input, default: Template, at: Path) -> None:
    value = settle(default)
    for name in find_open_secrets([one], {one.name: value}):
        message = f"the default of `{name}`, which is a secret, stands in the playbook as plain text"
        context.report.add(Code.INPUT, at, message, 'name one: "{{ keychain.<entry>.<field> }}"')
        return
    for fault in find_value_faults(one, value, one.name):
        context.report.add(Code.VALUE, at, f"`{fault.path}` {fault.message}", "correct the default")


def _compile_declaration(context: Context, one: _Declared) -> Input:
    """What a value has to be, without its default."""
    said, path = one.said, one.path
    type = _type_of(context, said, path)
    made = Input(
        name=one.name,
        type=type,
        required=bool(said.required),
        secret=bool(said.secret) or (said.type or "").lower() == SECRET_WORD,
        description=said.description if isinstance(said.description, str) else "",
        **_bounds(context, said, type, path),
        items=_compile_items(context, said, path) if type == "list" else None,
        properties=_compile_properties(context, said, path) if type == "object" else (),
    )
    _check_meaningless(context, said, type, path)
    return replace(made, enum=_compile_enum(context, made, said, path))


def _type_of(context: Context, said: InputDeclaration, path: Path) -> InputType:
    if said.type is None:
        return "object" if said.properties is not None else "list" if said.items is not None else "any"
    found = TYPE_WORDS.get(said.type.lower())
    if found is None:
        known = f"there are {', '.join(TYPES)}"
        hint = context.report.suggest(said.type.lower(), TYPE_WORDS, known)
        message = f"{quote_value(said.type)} is no type of an input"
        # A text in the place of the declaration is the type itself.
        at = (*path, "type") if "type" in context.raw(path) else path
        context.report.add(Code.VALUE, at, message, hint)
    return found or "any"


def _compile_items(context: Context, said: InputDeclaration, path: Path) -> Input | None:
    if said.items is None:
        return None
    return _compile_part(context, _Declared("", _as_declaration(said.items), (*path, "items")))


def _compile_properties(context: Context, said: InputDeclaration, path: Path) -> tuple[Input, ...]:
    found = _find_declared(context, said.properties, (*path, "properties"))
    return tuple(_compile_part(context, one) for one in found)


def _compile_part(context: Context, one: _Declared) -> Input:
    """What stands in an input."""
    for key in filter(one.has, _OF_INPUTS):
        message = f"`{key}` means nothing inside of an input"
        hint = "a default of the whole input may hold it" if key == "default" else "leave it out"
        context.report.add(Code.VALUE, (*one.path, key), message, hint, at_key=True)
    return _compile_declaration(context, one)


def _check_meaningless(context: Context, said: InputDeclaration, type: InputType, path: Path) -> None:
    """Keys that a value of this type does not have."""
    ordered, sized = ("min", "max"), ("min_length", "max_length")
    meaningless = (
        *(("pattern",) if type != "string" else ()),
        *(ordered if type not in ORDERED else ()),
        *(sized if type not in SIZED else ()),
        *(("items",) if type != "list" else ()),
        *(("properties",) if type != "object" else ()),
    )
    for key in meaningless:
        if getattr(said, key) is not None:
            message = f"`{key}` means nothing to an input of type {type}"
            context.report.add(Code.VALUE, (*path, key), message, "leave it out, or change the type")


def _bounds(context: Context, said: InputDeclaration, type: InputType, path: Path) -> dict[str, Any]:
    """Those that can be used."""
    made: dict[str, Any] = {}
    if type == "string" and said.pattern is not None:
        fault = pattern_fault(said.pattern)
        if fault:
            message = f"the pattern {quote_value(said.pattern)} cannot be used: {fault}"
            context.report.add(Code.VALUE, (*path, "pattern"), message, "write a simpler one")
        else:
            made["pattern"] = said.pattern
    if type in ORDERED:
        made |= _compile_range(context, said, type, path)
    if type in SIZED:
        made |= _compile_lengths(context, said, path)
    return made


def _compile_range(context: Context, said: InputDeclaration, type: InputType, path: Path) -> dict[str, Any]:
    places = {key: in_order(type, getattr(said, key)) for key in ("min", "max")}
    for key, place in places.items():
        given = getattr(said, key)
        if given is not None and place is None:
            message = f"`{key}` is {quote_value(given)}, which is no {type}"
            context.report.add(Code.VALUE, (*path, key), message, "write a value of the input's type")
    least, most = places.values()
    if least is not None and most is not None and least > most:
        _report_upside_down(context, "min", said.min, said.max, path)
    return {
        key: getattr(said, short)
        for key, short in (("minimum", "min"), ("maximum", "max"))
        if places[short] is not None
    }


def _compile_lengths(context: Context, said: InputDeclaration, path: Path) -> dict[str, Any]:
    made = {key: getattr(said, key) for key in ("min_length", "max_length")}
    for key, value in made.items():
        if value is not None and value < 0:
            context.report.add(Code.VALUE, (*path, key), f"`{key}` is {value}", "write a whole number from 0")
    least, most = made.values()
    if least is not None and most is not None and least > most:
        _report_upside_down(context, "min_length", least, most, path)
    return made


def _report_upside_down(context: Context, key: str, least: Json, most: Json, path: Path) -> None:
    message = f"`{key}` is {least}, and more than {most}: no value is both"
    context.report.add(Code.INPUT, (*path, key), message, "exchange them")


def _compile_enum(context: Context, one: Input, said: InputDeclaration, path: Path) -> tuple[Json, ...]:
    """Of a list the values that its items may have."""
    if said.enum is None:
        return ()
    if not said.enum:
        context.report.add(Code.VALUE, (*path, "enum"), "`enum` has no values", "write those that there are")
    for index, value in enumerate(said.enum):
        for fault in find_value_faults(replace(one, secret=False), value, str(index)):
            hint = f"write values of type {one.type}"
            context.report.add(Code.VALUE, (*path, "enum", index), f"this value {fault.message}", hint)
    return tuple(said.enum)
