"""What executions are called by: a key that every start would refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, Path
from noetl.errors import TemplateError
from noetl.expressions import names_used
from noetl.net.inputs import find_inputs
from noetl.net.model import Net


def check_secrets(subject: Subject) -> Iterator[Finding]:
    """A key is shown in every list."""
    net = subject.net
    if net is None or net.key is None:
        return
    with contextlib.suppress(TemplateError):  # `check_syntax` reports it, with its line
        for chain in sorted(names_used(net.key.value)):
            if _is_secret(net, chain):
                at: Path = ("key",) if isinstance(subject.document.key, str) else ("key", "value")
                yield Finding(
                    Code.VALUE,
                    at,
                    f"the key reads the secret {'.'.join(chain)}, and would show it in every list",
                    "make it of what may be shown",
                )


def _is_secret(net: Net, chain: tuple[str, ...]) -> bool:
    names = chain[1:] if chain[0] in ("workload", "payload") else chain
    return chain[0] == "keychain" or any(one.secret for one in find_inputs(net.inputs, names))
