"""Templates to values, guards to yes or no; and what is wrong with a template, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from noetl.errors import NoetlError, TemplateError
from noetl.expressions.follow import Chain, follow
from noetl.expressions.grammar import Path, chain_of, is_template, parse_once, texts
from noetl.expressions.limits import Broken, Meter, OverLimit, Refusal
from noetl.expressions.members import Undefined
from noetl.expressions.names import names_used
from noetl.expressions.output import BeginQuoting, Eval, QuotedText, Render, Scope, TextOutput
from noetl.expressions.places import place_of_line, place_of_word
from noetl.expressions.rendering import Rendering
from noetl.expressions.scope import ABSENT
from noetl.expressions.statements import Statements
from noetl.expressions.values import ATOMS, plain, text
from noetl.expressions.vocabulary import FILTERS, TESTS
from noetl.facts.json import Json
from noetl.facts.reference import Load, load_value

#: What is said of a value that is missing.
_UNDEFINED: Final = "is undefined"
#: Characters of a template's source in messages.
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class CompiledTemplate:
    """What a template means. Exactly one of `chain`, `whole` and `body` is there.

    `chain` is the common case, a name with attributes: it is walked without anything else around
    it.
    """

    source: str
    chain: Chain | None = None
    whole: Eval | None = None
    body: Render | None = None

    def value(
        self,
        names: Mapping[str, Any],
        load: Load | None,
        begin: BeginQuoting | None = None,
        warn: Warn | None = None,
    ) -> Any:
        """What the template yields; `Undefined` where a whole expression is that. With `begin`,
        values in mixed text are quoted; what is undefined there is told to `warn`. Raises
        `TemplateError`."""
        run: Rendering | None = None
        try:
            if self.chain is not None:
                return _walk(self.chain, names, load)
            run = Rendering(names, load, FILTERS, TESTS)
            if self.whole is not None:
                value = self.whole(Scope(run))
                return value if isinstance(value, Undefined) else plain(value, run)
            out = TextOutput(run, None if begin is None else begin())
            if self.body is not None:
                self.body(Scope(run), out)
            if run.absent and warn is not None:
                warn(Absence(self.source, tuple(run.absent), why_absent(self.source, names)))
            return out.text()
        except NoetlError:
            # What `names` and `load` are built on may be out of reach: that is not the template's
            # fault.
            raise
        except Exception as error:  # whatever user data provokes is one kind of failure
            raise explain(error, self.source, 1 if run is None else run.line, names) from error


def _walk(chain: Chain, names: Mapping[str, Any], load: Load | None) -> Any:
    value = follow(names, chain, load)
    if type(value) in ATOMS:
        return value
    return Undefined(".".join(chain.words)) if isinstance(value, Undefined) else plain(value)


@lru_cache(maxsize=8192)
def compile_template(source: str, bare: bool = False) -> CompiledTemplate:
    """Compile a template; with `bare`, a lone expression. Raises `TemplateError`."""
    try:
        return _compile(source, bare, _raise)
    except (Refusal, RecursionError) as error:
        raise explain(error, source, None) from error


def _raise(refusal: Refusal) -> None:
    raise refusal


def _compile(source: str, bare: bool, report: Callable[[Refusal], None]) -> CompiledTemplate:
    tree = parse_once(source, bare)
    compiler = Statements(tree.bound, report)
    if tree.whole is None:
        return CompiledTemplate(source, body=compiler.block(tree.body))
    chain = chain_of(tree.whole)
    if chain is not None:
        return CompiledTemplate(source, chain=chain)
    return CompiledTemplate(source, whole=compiler.visit(tree.whole))


def faults_of(source: str, bare: bool) -> list[Refusal]:
    """Everything that is wrong with a template before it meets data."""
    found: list[Refusal] = []
    try:
        _compile(source, bare, found.append)
    except (Refusal, RecursionError) as error:
        found.append(_to_refusal(error))
    return found


def _to_refusal(error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case MemoryError():
            return OverLimit("takes more memory than there is")
        case RecursionError():
            return Broken("is nested too deeply")
        case _:
            cause = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
            return Broken(f"cannot be evaluated: {cause}")


def shorten(source: str) -> str:
    """`source` on one line, at most `_SHOWN` characters."""
    line = " ".join(source[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN and len(source) <= 8 * _SHOWN else f"{line[: _SHOWN - 1]}…"


def explain(
    error: Exception, source: str, line: int | None, names: Mapping[str, Any] | None = None
) -> TemplateError:
    """What says which template failed over `names`, and why."""
    refusal = _to_refusal(error)
    hint = f" {refusal.hint}" if refusal.hint else ""
    if names is not None and _UNDEFINED in refusal.cause and (why := why_absent(source, names)):
        hint += f" {why[0].upper()}{why[1:]}: write `| default(...)` where it may be absent."
    message = f"The template `{shorten(source)}` {refusal.cause}.{hint}"
    return refusal.error(message, source, refusal.line or line)


@dataclass(frozen=True, slots=True)
class TemplateFault:
    """One fault: `path` within the value that was checked, `offset` within the string `source`
    found there."""

    path: Path
    source: str
    offset: int
    message: str
    hint: str


def check(template: Json, *, guard: bool = False) -> list[TemplateFault]:
    """Syntax errors, unknown filters and tests, tags that are not allowed, in `template`.

    With `guard`, a string without a template is an expression, as in `truth`.
    """
    bare = guard and isinstance(template, str) and not is_template(template) and bool(template.strip())
    return [
        _fault(path, source, bare, refusal)
        for path, source in texts(template)
        if bare or is_template(source)
        for refusal in faults_of(source, bare)
    ]


def _fault(path: Path, source: str, bare: bool, refusal: Refusal) -> TemplateFault:
    offset = place_of_word(source, refusal.word, guard=bare) if refusal.word else None
    if offset is None:
        offset = place_of_line(source, refusal.line or 1)
    message = f"The template `{shorten(source)}` {refusal.cause}."
    return TemplateFault(path, source, offset, message, refusal.hint)


@dataclass(frozen=True, slots=True)
class Absence:
    """A template that came out undefined: as a whole, and became null, or in `parts` of its text,
    where nothing was put."""

    source: str
    parts: tuple[str, ...] = ()
    #: A clause, where it is known why.
    why: str = ""


def why_absent(source: str, names: Mapping[str, Any]) -> str:
    """Why a name that the template reads is not there; empty where `names` do not know."""
    reasons: Mapping[str, str] = names.get(ABSENT, {})
    for chain in sorted(names_used(source, guard=True)):
        if chain[0] in reasons and chain[0] not in names:
            return reasons[chain[0]]
        if chain[0] == "env" and len(chain) > 1 and chain[1] not in names.get("env", {}):
            return f"{chain[1]} is not set, or NOETL_ENV_ALLOW does not name it"
    return ""


#: Called with what came out undefined.
Warn: TypeAlias = Callable[[Absence], None]

#: Words of mixed text that mean no in a guard, in any case.
_NO = frozenset({"false", "no", "off", "0", "", "none", "null"})


def evaluate(
    template: Json, names: Mapping[str, Any], *, load: Load | None = None, warn: Warn | None = None
) -> Json:
    """Render every string in `template`, and nothing that comes out of one.

    A string that is one `{{ expression }}` yields the value itself (undefined: null, with a
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
    if rendered is None or isinstance(rendered, str | int | float | Decimal):
        return text(rendered, Meter())
    raise TemplateError(f"The template `{shorten(key)}` of a key must yield a text.", key)


def _settle(
    code: CompiledTemplate,
    names: Mapping[str, Any],
    load: Load | None,
    warn: Warn | None,
    begin: BeginQuoting | None = None,
) -> Json:
    value = code.value(names, load, begin, warn)
    if not isinstance(value, Undefined):
        return value
    if warn is not None:
        warn(Absence(code.source, why=why_absent(code.source, names)))
    return None


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
    # Of a value that is kept by reference too: it may be an empty list.
    return bool(value if load is None or type(value) in ATOMS else load_value(value, load))
