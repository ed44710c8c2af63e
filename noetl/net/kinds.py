"""Kinds of tools: what the language knows of each, and the other spellings of their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic_core import ErrorDetails

from noetl.facts.json import Json, JsonMap


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a key means that authors write in the place of another one.

    `canonical` leads from the mapping of the key to the key of the canonical form (`spec/timeout`,
    `../input`); empty: the key has no effect. A value that is there wins, of mappings key by key;
    so does one at a place of `unless`.
    """

    canonical: str = ""
    unless: tuple[str, ...] = ()
    #: It means this with one of these values only; with any where there are none.
    values: tuple[Json, ...] = ()
    #: Why it has no effect, where that is worth a warning.
    warning: str = ""
    #: What the canonical form says beside it: key (from the same mapping) → value.
    adds: tuple[tuple[str, Json], ...] = ()
    #: The value as the canonical form has it.
    convert: Callable[[Json], Json] | None = None

    @property
    def meaning(self) -> str:
        """In a few words, for references."""
        if self.canonical:
            return f"The same as `{self.canonical.replace('/', '.')}`, which wins."
        return f"No effect: {self.warning}." if self.warning else "No effect."


def _parses(_text: str, _with_params: bool) -> tuple[int, str] | None:
    return None


def _no_faults(_config: JsonMap) -> Sequence[ErrorDetails]:
    return ()


def _tells_nothing(_config: JsonMap) -> Effects | None:
    return None


#: What one more call of the same task changes: nothing, because none does; nothing, because it
#: leaves what the first one left; what is outside of NoETL.
Effects: TypeAlias = Literal["none", "idempotent", "external"]
#: What packages say of a whole kind: those that were made before say `internal` of what belongs to
#: their worker.
KindEffects: TypeAlias = Effects | Literal["internal"]


@dataclass(frozen=True, slots=True)
class KindInfo:
    """What the language needs to know of a tool kind to compile and check playbooks.

    `schema` is the JSON Schema of the tool's configuration; `required` are groups of keys of which
    one must be there (`(("command", "commands"),)`), and not be empty; an empty mapping under a key
    in `may_be_empty` is there. Keys in `verbatim` are never rendered (unless
    the task says `spec.render: true`), those in `verbatim_with_params` are not where the task has
    `params`. Texts in `quoted` (or in a list there) are command lines: what templates put into them
    is quoted, unless the task says `spec.quote: false`. `defaults` is the kind's default `spec`.
    `python_keys` hold python source (checked for syntax), `source_files` name files of it;
    `names_result`: what they yield is what they call `result`, or return.
    Texts under a key in `deferred`, wherever it stands in the configuration, are guards that are
    asked later than the call, which is handed `{when, names}`. `declares` are the places of the
    configuration, dotted, `*` for any key, where inputs are declared as a playbook does it; the
    call is handed `{inputs, defaults}` (`noetl.net.forms`) in their place.
    `suspends`: its tasks may leave their worker before they end. Keys in `by_reference` may come to
    the tool as references to results (`noetl.facts.reference`), unopened, wherever one stands in
    them; `*` stands for the task's args. Where a template under a key in `takes_rows` leads to the
    `rows` of a SQL result, they come as `{rows, columns, types}`. `sections` are what outcomes have
    besides `status`, `result`, `data`, `error` and `meta`, such as `pg`; None: unknown. `abandons`:
    what calls of it began elsewhere it can end, called once more with `Call.abandoned`. `spellings`
    are other ways to write its keys, by the way to them (`source/type`). `credentials` are the
    places of the configuration where a credential is named, dotted, `*` for any key. `parse` says
    of a text of its SQL, and whether names in it are bound, at which character and why it is none.
    `faults` tells what of a configuration the kind cannot take, as pydantic tells it; it raises
    nothing.
    `effects_of` says what a call with such a configuration changes, None where that does not tell:
    then it is `effects`.
    """

    kind: str
    queue: str
    effects: KindEffects = "external"
    description: str = ""
    schema: JsonMap = field(default_factory=dict)
    required: tuple[tuple[str, ...], ...] = ()
    may_be_empty: tuple[str, ...] = ()
    verbatim: tuple[str, ...] = ()
    verbatim_with_params: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()
    python_keys: tuple[str, ...] = ()
    names_result: bool = False
    source_files: tuple[str, ...] = ()
    defaults: JsonMap = field(default_factory=dict)
    deferred: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    suspends: bool = False
    abandons: bool = False
    by_reference: tuple[str, ...] = ()
    takes_rows: tuple[str, ...] = ()
    sections: tuple[str, ...] | None = None
    credentials: tuple[str, ...] = ("auth",)
    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    faults: Callable[[JsonMap], Sequence[ErrorDetails]] = _no_faults
    parse: Callable[[str, bool], tuple[int, str] | None] = _parses
    effects_of: Callable[[JsonMap], Effects | None] = _tells_nothing

    def says(self, config: JsonMap, key: str) -> bool:
        """Whether `config` says something under `key`."""
        value = config.get(key)
        return value not in (None, "", [], {}) or (value == {} and key in self.may_be_empty)

    def effects_with(self, config: JsonMap) -> Effects:
        """What a call with `config`, in which templates are left, changes."""
        known = self.effects_of(config) or self.effects
        # One more call repeats what it does in its worker, too.
        return "external" if known == "internal" else known


#: Of every kind that has a credential.
_OF_AUTH: Final = {"credential": Spelling("auth")}
#: Of every kind whose tool has a timeout, and of all others.
_OF_TIMEOUT: Final = {"timeout_seconds": Spelling("timeout", unless=("spec/timeout",))}
_OF_DEADLINE: Final = {"timeout": Spelling("spec/timeout"), "timeout_seconds": Spelling("spec/timeout")}


def of_kind(kind: KindInfo) -> Mapping[str, Spelling]:
    """The spellings of the keys of a tool: the way to the key (`source/type`) → what it means. All
    of them may stand under `spec` as well."""
    known = kind.schema.get("properties", {})
    found = dict(kind.spellings)
    if "auth" in known:
        found |= _OF_AUTH
    if "timeout" in known:
        found |= _OF_TIMEOUT
    elif kind.schema.get("additionalProperties") is False:
        found |= _OF_DEADLINE
    return {written: spelling for written, spelling in found.items() if written not in known}
