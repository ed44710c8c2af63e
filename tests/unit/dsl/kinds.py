"""The kinds that playbooks of these tests may name."""

from __future__ import annotations

from noetl.net.model import KindInfo

_SQL = ("command", "commands", "query")

KINDS = {
    info.kind: info
    for info in (
        KindInfo("python", "python", required=(("code",),), verbatim=("code",), python_keys=("code",)),
        KindInfo("http", "http", required=(("url", "endpoint"),), defaults={"timeout": 30}),
        KindInfo("postgres", "postgres", required=(_SQL,), verbatim_with_params=_SQL),
        KindInfo("duckdb", "duckdb", required=(_SQL,), verbatim_with_params=_SQL),
        KindInfo("shell", "shell", required=(("command", "commands", "argv"),)),
        KindInfo("noop", "noop"),
    )
}
