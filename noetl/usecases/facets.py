"""Labels and inputs as the row of an execution keeps them, for filters: a JSON object of texts.

It is compact, and no name in it holds a quotation mark: a text has a label exactly where it has
`"name":"value"` as a part, which every database can say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from noetl.errors import BadRequest
from noetl.facts.events import Requested
from noetl.facts.json import JsonMap
from noetl.facts.labels import LONGEST, check_count, read_labels, text_of
from noetl.net.input_values import settle
from noetl.net.model import Net

#: Bytes of all inputs that are kept: the scheduler reads rows in every turn.
MOST_BYTES: Final = 4000


def merge_labels(of_playbook: Mapping[str, str], given: JsonMap) -> dict[str, str]:
    """Those of an execution: what its start brings wins. Raises BadRequest."""
    try:
        return check_count({**of_playbook, **read_labels(given)})
    except ValueError as error:
        raise BadRequest(f"The labels {error}.") from error


def write_facets(values: Mapping[str, str]) -> str | None:
    """The text of a column; None where there are none."""
    return _dump(dict(values)) if values else None


def read_facets(text: str | None) -> dict[str, str]:
    """What `write_facets` wrote."""
    return {} if text is None else json.loads(text)


def part_of_name(name: str) -> str:
    """What stands in the text of all that have something of that name, and of no others."""
    return f"{_dump(name)}:"


def part_of_value(name: str, value: str) -> str:
    """What stands in the text of all that have that value under that name, and of no others."""
    return part_of_name(name) + _dump(value)


def write_inputs(net: Net, request: Requested) -> str | None:
    """What can be asked of the inputs of an execution: of the workload, as far as it is known when
    it starts, the texts, numbers and booleans at the top. Secrets are references by then, which
    are mappings. What does not fit is left out."""
    kept, left = {}, MOST_BYTES - len("{}")
    for name, text in _find_texts(net, request):
        left -= len(part_of_value(name, text).encode()) + len(",")
        if left < 0:
            break
        kept[name] = text
    return write_facets(kept)


def _find_texts(net: Net, request: Requested) -> Iterator[tuple[str, str]]:
    # What lies deeper is left out: only values at the top replace one another.
    known = {name: settle(value) for name, value in net.workload.items() if text_of(value) is not None}
    for name, value in {**known, **request.payload, **request.overrides}.items():
        text = text_of(value)
        if text is not None and '"' not in name:
            yield _clean(name), _clean(text[:LONGEST])


def _clean(text: str) -> str:
    """Without what no database holds."""
    return text.encode("utf-8", "replace").decode()


def _dump(value: str | dict[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
