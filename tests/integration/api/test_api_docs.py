"""`/api/docs` shows the OpenAPI document without anything from elsewhere."""

from __future__ import annotations

import re

from flask.testing import FlaskClient


def test_the_page_loads_only_files_of_this_server_and_runs_no_inline_script(client: FlaskClient) -> None:
    page = client.get("/api/docs")

    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) == 4
    for file in files:
        assert file.startswith("/api/")
        assert client.get(file).status_code == 200, file
    assert re.findall(r"<script(?! src=)|<style| style=| on\w+=", page.text) == []


def test_the_script_of_the_page_names_the_document(client: FlaskClient) -> None:
    script = client.get("/api/docs/docs.js")

    assert script.mimetype == "text/javascript"
    assert '"/api/openapi.json"' in script.text
