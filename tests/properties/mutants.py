"""Playbooks with something wrong: texts and trees with pieces cut out, put in, moved and
replaced."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from noetl.dsl import json_schema

#: Every key that any part of a playbook knows.
KEYS = sorted({key for part in json_schema({})["$defs"].values() for key in part.get("properties", {})})

_TEXTS = (
    *(
        "",
        " ",
        "start",
        "end",
        "previous",
        "parallel",
        "workbook",
        "noop",
        "python",
        "ctx.a",
        "iter.x",
        "a" * 200,
    ),
    *(
        "{{ x }}",
        "{{ x",
        "x }}",
        "{{ x | nope }}",
        "{{ x.y.z }}",
        "{% if x %}",
        "{{ '{{' }}",
        "{{ ((1) }}",
        "{{ [] }}",
    ),
    *(
        "{{ 10 ** 10 ** 9 }}",
        "{{ ''.__class__ }}",
        "{% for a in x %}{% endfor %}",
        "{{ a if b else }}",
        "{{ x[ }}",
    ),
    *(
        "no",
        "on",
        "010",
        "22:22",
        "2026-01-01",
        "0x10",
        "1e400",
        ".nan",
        ".inf",
        "é\u2028",
        "\x7f",
        "~",
        "<<",
    ),
)
_NUMBERS = (0, 1, -1, 2, 3, 1.5, -0.0, 10**6, 10**30, 2**63, 1e308)
_PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        "- ",
        "&a ",
        "*a",
        "*b ",
        "!!binary ",
        "!x ",
        "|\n",
        ">-\n",
        "'",
        '"',
        "%",
        "@",
        "`",
    ),
    *(
        "#",
        ",",
        "?",
        "~",
        "\n",
        "\n\n",
        "  ",
        "\t",
        "\ufeff",
        "\x00",
        "\r",
        "---\n",
        "...\n",
        "<<: *a\n",
        "{{ ",
        " }}",
        "{% ",
        "\\",
        "\\u",
    ),
)


def mutant(text: str, draw: random.Random) -> str:
    """`text` with one to four changes."""
    if draw.random() < 0.4:
        return _of_text(text, draw)
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return _of_text(text, draw)
    for _ in range(draw.randint(1, 4)):
        data = _of_tree(data, draw)
    return yaml.safe_dump(
        data, allow_unicode=True, sort_keys=False, default_flow_style=draw.choice((False, None))
    )


def _of_text(text: str, draw: random.Random) -> str:
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text) + 1)
        cut = draw.choice((0, 0, 1, 1, 2, 5, 40))
        put = "".join(draw.choice(_PIECES) for _ in range(draw.choice((0, 1, 1, 2))))
        text = text[:at] + put + text[at + cut :]
    if draw.random() < 0.2:
        lines = text.split("\n")
        draw.shuffle(lines) if draw.random() < 0.2 else lines.reverse()
        text = "\n".join(lines)
    return text


def _of_tree(data: Any, draw: random.Random) -> Any:
    places = list(_places(data, ()))
    if not places:
        return _junk(draw)
    data = copy.deepcopy(data)
    *outer, last = draw.choice(places)
    parent = data
    for key in outer:
        parent = parent[key]
    _CHANGES[draw.randrange(len(_CHANGES))](data, parent, last, draw)
    return data


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _delete(_data: Any, parent: Any, last: Any, _draw: random.Random) -> None:
    del parent[last]


def _replace(_data: Any, parent: Any, last: Any, draw: random.Random) -> None:
    parent[last] = _junk(draw)


def _add(_data: Any, parent: Any, _last: Any, draw: random.Random) -> None:
    if isinstance(parent, dict):
        parent[draw.choice(KEYS)] = _junk(draw)
    else:
        parent.append(_junk(draw))


def _duplicate(_data: Any, parent: Any, last: Any, draw: random.Random) -> None:
    if isinstance(parent, list):
        parent.insert(last, copy.deepcopy(parent[last]))
    else:
        parent[draw.choice(KEYS)] = copy.deepcopy(parent[last])


def _move(data: Any, parent: Any, last: Any, draw: random.Random) -> None:
    """Another part of the document, of whatever sort, stands in the place of this one."""
    other = data
    for key in draw.choice(list(_places(data, ()))):
        other = other[key]
    parent[last] = copy.deepcopy(other)


def _wrap(_data: Any, parent: Any, last: Any, draw: random.Random) -> None:
    value = parent[last]
    parent[last] = [value] if draw.random() < 0.5 else {draw.choice(KEYS): value}


def _rename(_data: Any, parent: Any, last: Any, draw: random.Random) -> None:
    if isinstance(parent, dict):
        items = [(draw.choice(KEYS) if key == last else key, value) for key, value in parent.items()]
        parent.clear()
        parent.update(items)


_CHANGES: Sequence[Callable[[Any, Any, Any, random.Random], None]] = (
    *(_delete, _replace, _replace, _add, _add, _duplicate, _move, _wrap, _rename),
)


def _junk(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(8 if depth < 3 else 5)
    if kind >= 5:
        count = range(draw.randrange(4))
        if kind == 5:
            return [_junk(draw, depth + 1) for _ in count]
        return {draw.choice(KEYS): _junk(draw, depth + 1) for _ in count}
    return draw.choice((None, True, False, draw.choice(_NUMBERS), draw.choice(_TEXTS), draw.choice(_TEXTS)))
