"""`where`: a condition on executions as text, `status = 'failed' and error ~ 'timed? out'`.

It is read by the parser of PostgreSQL, as the condition of a SELECT that is never run; what it does
not need to know is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, get_args

from noetl.errors import BadRequest
from noetl.facts import durations
from noetl.facts.labels import LONGEST as LONGEST_VALUE
from noetl.facts.nearest import did_you_mean
from noetl.net.patterns import pattern_fault
from noetl.usecases.fields import FACETS, FIELDS, Field, find_field
from noetl.usecases.moment import is_id
from noetl.usecases.ports.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Matching,
    Not,
    OneOf,
    Ordered,
    Present,
    Value,
)
from noetl.usecases.ports.executions import Descent, ExecutionStatus

_BROKEN: Final = re.compile("[\0\ud800-\udfff]")
#: Characters of a filter.
LONGEST: Final = 10_000
#: Fields of which all values are known.
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "status": get_args(ExecutionStatus),
    "descent": get_args(Descent),
}
_BEFORE: Final = "SELECT 1 WHERE "
#: All that such a SELECT consists of.
_PARTS: Final = {"target_list", "where_clause", "limit_option", "op"}
_NO_UNION: Final = 1
#: Numbers of PostgreSQL's tree.
_AND: Final = 1
_OR: Final = 2
_IS_NULL: Final = 1
#: Versions of playbooks are kept in 32 bits.
_LARGEST: Final = 2**31 - 1
_QUOTED: Final = "label.\"my-team\" = 'data'"
_OPERATORS: Final = "=, !=, <, <=, >, >=, ~, !~, in (…), is null"


def parse_where(text: str, now: datetime) -> Condition:
    """The condition that `text` is. `now` is what `'-2h'` counts from.

    Raises BadRequest with the character and what is wrong there.
    """
    _check_text(text)
    return _Reader(text, now).condition(_parse(text))


def _check_text(text: str) -> None:
    if len(text) > LONGEST:
        raise BadRequest(f"The filter has {len(text)} characters; at most {LONGEST} are read.")
    if not text.strip():
        raise BadRequest("The filter is empty; write one like status = 'failed'.")
    # What the parser, which is written in C, cannot be handed.
    if broken := _BROKEN.search(text):
        raise BadRequest(f"The filter cannot be used at character {broken.start() + 1}: it is no text there.")


def _parse(text: str) -> Any:
    # Imported here: it takes a fifth of a second, and most processes read no filter.
    import postgast
    from google.protobuf.message import DecodeError

    try:
        tree = postgast.parse(_BEFORE + text)
    except postgast.PgQueryError as error:
        place = max(int(error.cursorpos or 1) - 1 - len(_BEFORE), 0)
        raise _fault(text, place, str(error.message)) from error
    except (DecodeError, ValueError, RecursionError) as error:
        raise BadRequest("The filter nests too deeply; write it with fewer parentheses.") from error
    select = tree.stmts[0].stmt.select_stmt
    parts = {field.name for field, _ in select.ListFields()}
    if len(tree.stmts) > 1 or parts - _PARTS or select.op != _NO_UNION:
        raise BadRequest(f"The filter {_short(text)!r} is more than a condition, and may be no more.")
    return select.where_clause


def _fault(text: str, place: int, why: str) -> BadRequest:
    near = text[place:].strip()
    where = f"character {place + 1} ({_short(near)!r})" if near else "its end"
    return BadRequest(f"The filter cannot be used at {where}: {why}{'' if why[-1] in '.?' else '.'}")


def _written(operator: str) -> str:
    """The operator as people write it."""
    return "!=" if operator == "<>" else operator


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


class _Reader:
    """Makes conditions of the nodes of PostgreSQL's tree."""

    def __init__(self, text: str, now: datetime) -> None:
        self._text = text
        self._now = now

    def condition(self, node: Any) -> Condition:
        kind, inner = _open(node)
        match kind:
            case "bool_expr":
                return self._joined(inner)
            case "a_expr":
                return self._compared(inner)
            case "null_test":
                present = Present(self._field(inner.arg))
                return Not(present) if inner.nulltesttype == _IS_NULL else present
            case _:
                raise self._fault(inner, f"a condition compares a field with a value, by {_OPERATORS}")

    def _joined(self, node: Any) -> Condition:
        parts = tuple(self.condition(part) for part in node.args)
        if node.boolop == _AND:
            return AllOf(parts)
        return AnyOf(parts) if node.boolop == _OR else Not(parts[0])

    def _compared(self, node: Any) -> Condition:
        field, operator = self._field(node.lexpr), node.name[-1].string.sval
        kind, listed = _open(node.rexpr)
        if kind == "list" and _kind_of(node) == "AEXPR_IN":
            chosen = OneOf(field, tuple(self._value(field, item) for item in listed.items))
            return chosen if operator == "=" else Not(chosen)
        if kind == "column_ref":
            written = ".".join(part.string.sval or "*" for part in listed.fields)
            # The parser folds it to small letters.
            value = self._text[(at := self._place(listed)) : at + len(written)]
            raise self._fault(
                listed, f"values stand in single quotes: {field} {_written(operator)} '{value}'"
            )
        if kind != "a_const" or _kind_of(node) != "AEXPR_OP":
            raise self._fault(node, f"fields are compared with values by {_OPERATORS}")
        return self._by_operator(field, operator, node)

    def _by_operator(self, field: str, operator: str, node: Any) -> Condition:
        match operator:
            case "=":
                return OneOf(field, (self._value(field, node.rexpr),))
            case "<>":
                return Not(OneOf(field, (self._value(field, node.rexpr),)))
            case "~":
                return self._matching(field, node.rexpr)
            case "!~":
                return Not(self._matching(field, node.rexpr))
            case "<" | "<=" | ">" | ">=" if _field(field).kind == "text":
                raise self._fault(node, f"{field} is text, and compared by =, !=, ~, !~ and in (…)")
            case "<" | "<=" | ">" | ">=":
                return Ordered(field, operator, self._value(field, node.rexpr))
            case _:
                raise self._fault(node, f"{operator!r} compares nothing here, but {_OPERATORS}")

    def _field(self, node: Any) -> str:
        kind, inner = _open(node)
        if kind != "column_ref":
            quoted = f"; where it has other characters, it is quoted: {_QUOTED}" if kind == "a_expr" else ""
            raise self._fault(inner, f"the name of a field stands on the left of a comparison{quoted}")
        name = self._spell(inner, ".".join(part.string.sval or "*" for part in inner.fields))
        if find_field(name) is None:
            raise self._fault(inner, f"there is no field {name!r}.{_suggest(name)}")
        return name

    def _spell(self, node: Any, name: str) -> str:
        """The parser folds names without quotes to small letters; labels and inputs are called as
        it is written."""
        group, _, part = name.partition(".")
        place = self._place(node)
        written = self._text[place : place + len(name)]
        if not part or group not in FACETS or written.lower() != name.lower():
            return name
        return f"{group}.{written.partition('.')[2]}"

    def _matching(self, field: str, node: Any) -> Matching:
        pattern = self._constant(node)
        if _field(field).kind != "text" or not isinstance(pattern, str):
            raise self._fault(node.a_const, "~ searches text for a pattern in single quotes")
        if fault := pattern_fault(pattern):
            raise self._fault(node.a_const, f"{_short(pattern)!r} is no pattern: {fault}")
        return Matching(field, pattern)

    def _value(self, field: str, node: Any) -> Value:
        if _field(field).part is not None:
            return self._part_value(field, node)
        given = self._constant(node)
        match _field(field).kind:
            case "text":
                return self._text_value(field, given, node)
            case "number" if isinstance(given, int) and abs(given) <= _LARGEST:
                return given
            case "number":
                raise self._fault(node.a_const, f"{field} is a number up to {_LARGEST}, without quotes")
            case "id" if is_id(str(given)):
                return str(int(given))
            case "id":
                raise self._fault(node.a_const, f"{field} is an id, a decimal number")
            case _:
                return self._instant(field, given, node)

    def _part_value(self, field: str, node: Any) -> str:
        kind, inner = _open(node)
        if kind == "a_const" and inner.WhichOneof("val") == "boolval":
            return "true" if inner.boolval.boolval else "false"
        text = str(self._constant(node))
        if len(text) > LONGEST_VALUE:
            raise self._fault(inner, f"of {field} the first {LONGEST_VALUE} characters are kept, and no more")
        return text

    def _text_value(self, field: str, given: str | int, node: Any) -> str:
        if not isinstance(given, str):
            raise self._fault(node.a_const, f"{field} is text, written in single quotes")
        known = _KNOWN.get(field)
        if known is not None and given not in known:
            hint = did_you_mean(given, known) or f" There are {', '.join(known)}."
            raise self._fault(node.a_const, f"no execution has the {field} {_short(given)!r}.{hint}")
        return given

    def _instant(self, field: str, given: str | int, node: Any) -> datetime:
        text = str(given)
        try:
            return durations.read_instant(text, self._now)
        except (ValueError, OverflowError):
            told = "is an instant: '2026-01-31T12:00:00Z', or '-2h' for two hours ago"
            raise self._fault(node.a_const, f"{field} {told}, not {_short(text)!r}") from None

    def _constant(self, node: Any) -> str | int:
        kind, inner = _open(node)
        if kind != "a_const":
            raise self._fault(inner, "a value is text in single quotes, or a number")
        match inner.WhichOneof("val"):
            case "sval":
                return str(inner.sval.sval)
            case "ival":
                return int(inner.ival.ival)
            case "fval" if inner.fval.fval.isdecimal():
                return int(inner.fval.fval)
            case _:
                raise self._fault(inner, "a value is text in single quotes, or a whole number")

    def _fault(self, node: Any, why: str) -> BadRequest:
        return _fault(self._text, self._place(node), why)

    def _place(self, node: Any) -> int:
        # The parser counts bytes.
        place = max(getattr(node, "location", 0) - len(_BEFORE), 0)
        return len(self._text.encode()[:place].decode(errors="ignore"))


def _field(name: str) -> Field:
    found = find_field(name)
    assert found is not None, "it was looked for where it was read"
    return found


def _suggest(name: str) -> str:
    """What was meant in the place of a field that there is not."""
    group, _, part = name.partition(".")
    if group in FACETS:
        return f" Write {group}.NAME."
    alike = [*FIELDS, *(f"{one}.{part}" for one in FACETS if part)]
    named = ", ".join([*FIELDS, *(f"{one}.NAME" for one in FACETS)])
    return did_you_mean(name, alike) or f" The fields are {named}."


def _open(node: Any) -> tuple[str, Any]:
    """What kind of node it is, and what it holds."""
    kind = node.WhichOneof("node") or ""
    return kind, getattr(node, kind) if kind else node


def _kind_of(expression: Any) -> str:
    field = expression.DESCRIPTOR.fields_by_name["kind"]
    return str(field.enum_type.values_by_number[expression.kind].name)
