"""The kinds that playbooks of these tests may name, and short ways to compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from noetl.dsl import Compiled, compile_playbook
from noetl.net.model import KindInfo, Net

_SQL = ("command", "commands", "query")
_HTTP_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"url": {}, "endpoint": {}, "method": {}, "headers": {}, "timeout": {}, "auth": {}},
}
_KINDS = (
    KindInfo(
        "python",
        "python",
        required=(("code",),),
        verbatim=("code",),
        python_keys=("code",),
        names_result=True,
    ),
    KindInfo(
        "http", "http", required=(("url", "endpoint"),), schema=_HTTP_SCHEMA, defaults={"retries": {"max": 1}}
    ),
    KindInfo("postgres", "postgres", required=(_SQL,), verbatim_with_params=_SQL),
    KindInfo("sqlite", "sqlite", schema={"type": "object", "properties": {"table": {}, "rows": {}}}),
    KindInfo("duckdb", "duckdb", required=(_SQL,), verbatim_with_params=_SQL),
    KindInfo(
        "shell",
        "shell",
        required=(("command", "commands", "argv"),),
        quoted=("command", "commands"),
        sections=("sh",),
    ),
    KindInfo("noop", "noop"),
)

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: sample}\n"


@pytest.fixture(scope="session")
def kinds() -> Mapping[str, KindInfo]:
    return {info.kind: info for info in _KINDS}


@pytest.fixture(scope="session")
def compiled(kinds: Mapping[str, KindInfo]) -> Callable[..., Compiled]:
    """Compiles a text as it is."""

    def run(text: bytes | str, *, strict: bool = False) -> Compiled:
        return compile_playbook(text, file="sample.yaml", kinds=kinds, strict=strict)

    return run


@pytest.fixture(scope="session")
def body(compiled: Callable[..., Compiled]) -> Callable[[str], Compiled]:
    """Compiles a text below the header; its first line is line 4."""
    return lambda text: compiled(HEADER + text)


@pytest.fixture(scope="session")
def net_of(body: Callable[[str], Compiled]) -> Callable[[str], Net]:
    """The net of a text below the header, which must have no errors."""

    def run(text: str) -> Net:
        result = body(text)
        assert result.errors == ()
        assert result.net is not None
        return result.net

    return run
