"""A compiled template, its faults, and its errors in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from noetl.errors import NoetlError, TemplateError
from noetl.expressions.follow import Chain, follow
from noetl.expressions.grammar import Path, chain_of, is_template, parse_once, texts
from noetl.expressions.limits import Broken, OverLimit, Refusal
from noetl.expressions.members import Undefined
from noetl.expressions.output import BeginQuoting, Eval, Out, QuotedOut, Render, Scope
from noetl.expressions.places import place_of_line, place_of_word
from noetl.expressions.rendering import Rendering
from noetl.expressions.statements import Statements
from noetl.expressions.values import ATOMS, plain
from noetl.expressions.vocabulary import FILTERS, TESTS
from noetl.facts.json import Json
from noetl.facts.reference import Load

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

    def value(self, names: Mapping[str, Any], load: Load | None, begin: BeginQuoting | None = None) -> Any:
        """What the template yields; `Undefined` where a whole expression is that. With `begin`,
        values in mixed text are quoted. Raises `TemplateError`."""
        run: Rendering | None = None
        try:
            if self.chain is not None:
                return _walk(self.chain, names, load)
            run = Rendering(names, load, FILTERS, TESTS)
            if self.whole is not None:
                value = self.whole(Scope(run))
                return value if isinstance(value, Undefined) else plain(value, run)
            return self._render(run, Out(run) if begin is None else QuotedOut(run, begin()))
        except NoetlError:
            # What `names` and `load` are built on may be out of reach: that is not the template's
            # fault.
            raise
        except Exception as error:  # whatever user data provokes is one kind of failure
            raise explain(error, self.source, 1 if run is None else run.line) from error

    def _render(self, run: Rendering, out: Out) -> str:
        if self.body is not None:
            self.body(Scope(run), out)
        return out.text()


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
    return CompiledTemplate(source, whole=compiler.expression(tree.whole))


def faults_of(source: str, bare: bool) -> list[Refusal]:
    """Everything that is wrong with a template before it meets data."""
    found: list[Refusal] = []
    try:
        _compile(source, bare, found.append)
    except Refusal as refusal:
        found.append(refusal)
    except RecursionError:
        found.append(Broken("is nested too deeply"))
    return found


def shorten(source: str) -> str:
    """`source` on one line, at most `_SHOWN` characters."""
    line = " ".join(source[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN and len(source) <= 8 * _SHOWN else f"{line[: _SHOWN - 1]}…"


def explain(error: Exception, source: str, line: int | None) -> TemplateError:
    """The one sentence that says which template failed, and why."""
    match error:
        case Refusal():
            refusal = error
        case MemoryError():
            refusal = OverLimit("takes more memory than there is")
        case RecursionError():
            refusal = Broken("is nested too deeply")
        case _:
            cause = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
            refusal = Broken(f"cannot be evaluated: {cause}")
    hint = f" {refusal.hint}" if refusal.hint else ""
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
