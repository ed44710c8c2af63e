"""Who may do what: grants, and the principals that have them.

A grant is a scope, alone or with a pattern of playbook paths: `run`, `run:etl/*`. Each of `read`,
`run`, `operate` and `admin` includes those before it, and `approve` includes `read`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, get_args

from noetl.errors import BadRequest, Forbidden
from noetl.facts.nearest import did_you_mean
from noetl.net.patterns import matches
from noetl.usecases.ports import Condition
from noetl.usecases.ports.conditions import AnyOf, Matching, OneOf

Scope: TypeAlias = Literal["read", "run", "operate", "approve", "admin"]

#: What each scope is for, as people are told.
SCOPES: Final[dict[Scope, str]] = {
    "read": "look at executions and playbooks",
    "run": "start executions of registered playbooks, and send signals",
    "operate": "steer executions, run them again, register playbooks",
    "approve": "answer approvals",
    "admin": "everything, tokens and credentials included",
}
#: What people are told who look for a scope of workers, or of queues.
NO_WORK: Final = "Workers use no token and need no scope: they reach the database and the broker themselves."
_INCLUDED: Final[dict[Scope, frozenset[Scope]]] = {
    "read": frozenset({"read"}),
    "run": frozenset({"read", "run"}),
    "operate": frozenset({"read", "run", "operate"}),
    "approve": frozenset({"read", "approve"}),
    "admin": frozenset(get_args(Scope)),
}
#: Every path.
ANY_PATH: Final = "*"
#: A character that is in no pattern.
_UNSPELT: Final = "\N{REPLACEMENT CHARACTER}"
#: What stands for something else in other languages of patterns, and is in no path.
_ODD: Final = f"?[] {_UNSPELT}"
_LONGEST: Final = 512
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+/-]{0,127}")
#: Who asks without a token, where none is needed. No token is made for it.
ANONYMOUS: Final = "anonymous"


def session_cookie(host: str) -> str:
    """The cookie in which a browser keeps the token of who has signed in at `host[:port]`; cookies
    themselves do not tell ports apart. Pages are served with it, and what only reads: programs send
    a header."""
    port = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    return f"noetl_session_{port}" if port.isdecimal() else "noetl_session"


@dataclass(frozen=True, slots=True)
class Grant:
    """A scope, for the playbooks whose path matches a pattern: `*` stands for any characters,
    slashes among them."""

    scope: Scope
    pattern: str = ANY_PATH

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises BadRequest."""
        scope, colon, pattern = text.strip().partition(":")
        for known in get_args(Scope):
            if known == scope:
                return cls(known, _check_pattern(text, pattern) if colon else ANY_PATH)
        hint = f" {NO_WORK}" if scope == "work" else did_you_mean(scope, SCOPES)
        raise BadRequest(f"{scope[:80]!r} is no scope ({', '.join(SCOPES)}).{hint}")

    def __str__(self) -> str:
        return self.scope if self.pattern == ANY_PATH else f"{self.scope}:{self.pattern}"

    def covers(self, scope: Scope, path: str | None) -> bool:
        """Whether it allows `scope` for the playbook at `path`; None: for whatever path."""
        if scope not in _INCLUDED[self.scope]:
            return False
        return self.pattern == ANY_PATH or (path is not None and matches(self.as_regex(), path))

    def as_condition(self) -> Condition:
        """Which executions its pattern means."""
        if "*" in self.pattern:
            return Matching("path", self.as_regex())
        # What the database can look up.
        return OneOf("path", (self.pattern,))

    def as_regex(self) -> str:
        """The pattern as conditions on executions have them."""
        return "^" + ".*".join(re.escape(part) for part in self.pattern.split("*")) + "$"


def _check_pattern(text: str, pattern: str) -> str:
    path = pattern.strip("/")
    is_odd = not path.isprintable() or any(one in path for one in _ODD)
    if not path or len(path) > _LONGEST or is_odd:
        raise BadRequest(
            f"{text[:80]!r} grants no path: write a path or a pattern behind the colon, like `run:etl/*`."
        )
    return path


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks, a person or a program, and what it may."""

    name: str
    grants: tuple[Grant, ...]
    groups: tuple[str, ...] = ()
    #: The token that said so.
    token_id: str | None = None
    #: How many requests it may make, like `100/minute`.
    rate: str | None = None

    def may(self, scope: Scope, path: str | None = None) -> bool:
        """Whether it may do that with the playbook at `path`; None: with all there are."""
        return any(grant.covers(scope, path) for grant in self.grants)

    def has_some(self, scope: Scope) -> bool:
        """Whether it may do that with some playbooks at least."""
        return any(scope in _INCLUDED[grant.scope] for grant in self.grants)

    def may_below(self, scope: Scope, place: str) -> bool:
        """Whether it may do that with the playbooks at `place` and all below it."""
        # What no pattern spells is only matched by a `*`, here at its end: that matches everything.
        return self.may(scope, place) and self.may(scope, f"{place}/{_UNSPELT}")

    def reach(self, scope: Scope) -> Condition | None:
        """With which executions it may do that; None: with all of them."""
        if self.may(scope):
            return None
        grants = (grant for grant in self.grants if scope in _INCLUDED[grant.scope])
        return AnyOf(tuple(grant.as_condition() for grant in grants))

    def visible(self) -> Condition | None:
        """Which executions it may look at; None: all of them."""
        return self.reach("read")


#: Who asks where nobody has to say who it is.
ANYBODY: Final = Principal(ANONYMOUS, (Grant("admin"),))
#: Who asks without having said who it is, for what needs no token at all.
NOBODY: Final = Principal(ANONYMOUS, ())


def lacking(principal: Principal, scope: Scope, what: str = "any playbook") -> Forbidden:
    """The error for what somebody asks for who has no scope for it."""
    return Forbidden(
        f"{principal.name} has no scope `{scope}` for {what}, which this needs; "
        "`noetl token create` makes a token that has it."
    )


def check_name(name: str, what: str) -> str:
    """The name of a principal or group. Raises BadRequest for one that none can have."""
    if not _NAME.fullmatch(name) or name == ANONYMOUS:
        raise BadRequest(
            f"{name[:80]!r} is no name for a {what}: use up to 128 letters, digits and `._@+/-`, a letter or "
            f"digit first, and not {ANONYMOUS!r}."
        )
    return name


def parse_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Raises BadRequest where one is none, or where there are none."""
    grants = tuple(dict.fromkeys(Grant.parse(text) for text in texts))
    if not grants:
        raise BadRequest(f"What may be done with it? Give at least one scope: {', '.join(SCOPES)}.")
    return grants
