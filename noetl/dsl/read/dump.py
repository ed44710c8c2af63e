"""Data as YAML that `noetl.dsl.read.source.read` reads as the same data."""

from __future__ import annotations

from typing import Any, Final

import yaml

from noetl.dsl.read.line_ends import ENDS_OF_1_1
from noetl.dsl.read.scalars import ScalarFault, plain
from noetl.facts.json import Json

_WIDTH: Final = 110


def dump(data: Json) -> str:
    """`data` in block style, in the order of its keys."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


class _Dumper(yaml.SafeDumper):
    """Knows fewer words than YAML 1.1, and other numbers; says nothing twice as an alias."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    if ENDS_OF_1_1.intersection(text):
        return '"'  # the printer would break lines at them; here it escapes them
    if "\n" in text:
        return "|"
    return None if _stays(text) else '"'


def _stays(text: str) -> bool:
    try:
        return bool(plain(text) == text)
    except ScalarFault:
        return False


_Dumper.add_representer(str, _represent_text)
