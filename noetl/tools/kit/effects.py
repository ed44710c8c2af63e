"""What calls touch, in words: what `touches` of the tools is made of. Configurations here are not
checked yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from noetl.facts.json import Json
from noetl.tools.kit.masking import MASK

#: Characters of a command or an address that are shown.
_SHOWN: Final = 120
_USER_INFO: Final = re.compile(r"(?<=//)[^/@\s]*:[^/@\s]*(?=@)")


def one_line(text: Json) -> str:
    """`text` without line ends, cut where it is long."""
    line = " ".join(str(text)[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def address(url: Json) -> str:
    """`url` without the password in it."""
    return one_line(_USER_INFO.sub(MASK, str(url)))


def credential(auth: Json) -> str | None:
    """The name of the credential in `auth`, where that is one."""
    name = auth.get("credential") if isinstance(auth, Mapping) else auth
    return one_line(name) if isinstance(name, str) and name else None


def first(config: Mapping[str, Json], *names: str) -> Json:
    """The value of the first of `names` that has one."""
    return next((config[name] for name in names if config.get(name) not in (None, "")), None)


def as_list(value: Json) -> list[Json]:
    """`value` as a list: null is empty, anything else than a list its only element."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
