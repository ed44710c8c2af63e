"""The examples of the classic dialect, as the page about dialects prints them, on real servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests import httpd

pytestmark = pytest.mark.postgres

PAGE = Path(__file__).parents[2] / "docs/dialects.md"
ITEMS = [{"id": number, "name": f"item {number}"} for number in range(5)]


def printed(path: str) -> str:
    """The example with that path, without its head."""
    fenced = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    text: str = next(one for one in fenced if f"path: {path}}}" in one)
    return text[text.index("\nworkload:") + 1 :]


@pytest.fixture
def items() -> Iterator[httpd.Server]:
    """Items in pages of two, each of which names the next one."""

    def answer(handler: httpd.Handler) -> None:
        start = int(parse_qs(urlsplit(handler.path).query).get("cursor", ["0"])[0])
        following = start + 2 if start + 2 < len(ITEMS) else None
        handler.json({"results": ITEMS[start : start + 2], "nextCursor": following})

    server = httpd.started()
    server.routes["/items"] = answer
    yield server
    httpd.stopped(server)


def sql(command: str) -> str:
    return f'workflow: [{{step: start, tool: {{kind: postgres, auth: warehouse, command: "{command}"}}}}]'


def test_each_record_becomes_a_row(result: Callable[..., Any], warehouse: str) -> None:
    result(sql("CREATE TABLE processed_records (processed_id TEXT PRIMARY KEY, status TEXT NOT NULL)"))
    result(printed("docs/process_records"))
    rows = result(sql("SELECT * FROM processed_records ORDER BY processed_id"))["rows"]
    assert rows == [{"processed_id": name, "status": "complete"} for name in "abc"]


def test_each_item_of_each_page_becomes_a_row(
    result: Callable[..., Any], warehouse: str, items: httpd.Server
) -> None:
    result(sql("CREATE TABLE raw_data (id INT PRIMARY KEY, name TEXT NOT NULL)"))
    result(printed("docs/load_pages"), base_url=items.url)
    assert result(sql("SELECT * FROM raw_data ORDER BY id"))["rows"] == ITEMS
    assert [request["path"] for request in items.seen] == ["/items", "/items?cursor=2", "/items?cursor=4"]
