"""What holds of all pages: who may see them, what they may load, and who may send their forms."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.ui import static_files
from noetl.usecases import tokens

from .browsing import OWN, Page, sign_in

PAGES = ["/", "/login", "/executions/7", "/?status=nonsense", "/failures", "/operations"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_whole_in_itself(browser: FlaskClient, path: str) -> None:
    page = browser.get(path)
    assert page.mimetype == "text/html"
    assert not re.findall(r'(?:src|href|action)="(?:https?:)?//(?!localhost)', page.text)
    assert "style=" not in page.text, "the policy forbids it"
    assert not re.findall(r"\son\w+=", page.text), "the policy forbids it"
    loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(loaded) == 10
    for file in [*loaded, *re.findall(r'data-worker="([^"]+)"', page.text)]:
        answer = browser.get(file)
        assert answer.status_code == 200, file
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.mimetype in ("text/css", "text/javascript", "image/svg+xml")


def test_every_file_that_lies_beside_the_pages_is_one_that_they_load(browser: FlaskClient) -> None:
    folder = Path(static_files.__file__).parent / "static"
    base = re.findall(r'"(/static/[^/"]+/)style.css"', browser.get("/").text)[0]
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        assert browser.get(f"{base}{file.relative_to(folder).as_posix()}").status_code == 200, file


@pytest.mark.parametrize("path", PAGES)
def test_a_page_runs_its_own_scripts_and_no_other(browser: FlaskClient, path: str) -> None:
    page, again = browser.get(path), browser.get(path)
    policy = page.headers["Content-Security-Policy"]
    (nonce,) = set(re.findall(r'<script nonce="([^"]+)"', page.text))
    assert f"script-src 'nonce-{nonce}';" in policy
    assert policy != again.headers["Content-Security-Policy"], "a nonce is used once"
    assert page.text.count("<script") == page.text.count(f'<script nonce="{nonce}" src="/static/')
    for part in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy


def test_what_another_version_had_is_served_and_not_kept(browser: FlaskClient) -> None:
    answer = browser.get("/static/000000000000/style.css")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    for name in ("nothing.css", "../site.py", "%2e%2e/site.py", "templates/base.html"):
        assert browser.get(f"/static/000000000000/{name}").status_code == 404, name


def test_a_page_leads_to_flower_for_those_who_may_see_all_playbooks(closed: Flask, sim: Simulation) -> None:
    for scopes, leads in ((["read"], True), (["read:etl/*"], False)):
        browser = closed.test_client()
        sign_in(browser, tokens.create(sim.rt, "alice", scopes).text)
        assert ("/flower/" in Page(browser.get("/").text).links) is leads
    assert "/flower/" not in Page(closed.test_client().get("/login").text).links


# --- signing in ---


def test_who_has_not_signed_in_does_so_first_and_goes_on(closed: Flask, sim: Simulation) -> None:
    browser = closed.test_client()
    answer = browser.get("/?status=failed&path=etl/*")
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/login?next=%2F%3Fstatus%3Dfailed%26path%3Detl%2F%2A",
    )
    page = Page(browser.get(answer.headers["Location"]).text)
    assert page.types == {"form_key": "hidden", "next": "hidden", "token": "password"}
    wrong = browser.post("/login", data={**page.fields, "token": "noetl_x_y"}, headers=OWN)
    assert (wrong.status_code, "noetl_x_y" in wrong.text) == (401, False)
    assert browser.get("/").status_code == 303
    token = tokens.create(sim.rt, "alice", ["read"]).text
    found = browser.post("/login", data={**page.fields, "token": token}, headers=OWN)
    assert (found.status_code, found.headers["Location"]) == (303, "/?status=failed&path=etl/*")
    cookie = found.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "alice" in Page(browser.get("/").text).text


@pytest.mark.parametrize(
    "where", ["https://evil.example/", "//evil.example", "/\\evil.example", "x", "/\n/evil"]
)
def test_signing_in_leads_nowhere_else(closed: Flask, sim: Simulation, where: str) -> None:
    token = tokens.create(sim.rt, "alice", ["read"]).text
    assert sign_in(closed.test_client(), token, where).headers["Location"] == "/"


def test_a_token_that_was_revoked_is_forgotten(closed: Flask, sim: Simulation) -> None:
    browser = closed.test_client()
    made = tokens.create(sim.rt, "alice", ["read"])
    sign_in(browser, made.text)
    assert browser.get("/").status_code == 200
    tokens.revoke(sim.rt, made.row.token_id)
    script = {"HX-Request": "true", "HX-Current-URL": "http://localhost/?status=failed"}
    part = browser.get("/", headers=script)
    assert (part.status_code, part.headers["HX-Redirect"]) == (401, "/?status=failed")
    elsewhere = {**script, "HX-Current-URL": "https://evil.example/x"}
    assert browser.get("/", headers=elsewhere).headers["HX-Redirect"] == "/https://evil.example/x"
    answer = browser.get("/?status=failed")
    assert (answer.status_code, "was revoked" in answer.text) == (401, True)
    assert Page(answer.text).fields["next"] == "/?status=failed"
    assert browser.get("/").status_code == 303, "the cookie is gone"
    assert browser.get("/login").status_code == 200


def test_a_form_that_is_refused_for_its_token_leads_back_to_its_page(closed: Flask, sim: Simulation) -> None:
    browser = closed.test_client()
    made = tokens.create(sim.rt, "alice", ["operate"])
    sign_in(browser, made.text)
    form_key = Page(browser.get("/login").text).fields["form_key"]
    tokens.revoke(sim.rt, made.row.token_id)
    referrer = {**OWN, "Referer": "http://localhost/executions/7?tab=waits"}
    answer = browser.post("/act", data={"form_key": form_key, "act": "cancel", "id": "7"}, headers=referrer)
    assert (answer.status_code, "was revoked" in answer.text) == (401, True)
    assert Page(answer.text).fields["next"] == "/executions/7?tab=waits"


def test_a_token_in_the_address_of_a_page_goes_no_further(closed: Flask, sim: Simulation) -> None:
    browser = closed.test_client()
    token = tokens.create(sim.rt, "alice", ["admin"]).text
    for name in ("token", "path", "next"):
        answer = browser.get("/", query_string={name: token})
        assert (answer.status_code, token in answer.text) == (401, False)
        assert "Location" not in answer.headers
        assert "revoke this one" in answer.text


def test_signing_out_forgets_the_token(closed: Flask, sim: Simulation) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "alice", ["read"]).text)
    page = Page(browser.get("/").text)
    assert browser.post("/logout", data=page.fields).status_code == 403, "it comes from nowhere"
    assert browser.post("/logout", data=page.fields, headers=OWN).status_code == 303
    assert browser.get("/").status_code == 303


def test_the_cookie_reads_and_changes_nothing_but_by_forms(closed: Flask, sim: Simulation, text: str) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "alice", ["admin"]).text)
    assert browser.get("/api/executions").status_code == 200
    answer = browser.post("/api/executions", json={"path": "examples/doubling"}, headers=OWN)
    assert answer.status_code == 401
    assert browser.delete("/api/cache", headers=OWN).status_code == 401


def test_a_cookie_of_another_port_is_another_one(closed: Flask, sim: Simulation) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "alice", ["read"]).text)
    assert browser.get("/", base_url="http://localhost:9999").status_code == 303


def test_an_error_is_a_page(browser: FlaskClient) -> None:
    answer = browser.get("/executions/7")
    assert (answer.status_code, answer.mimetype) == (404, "text/html")
    assert "There is no execution &#39;7&#39;." in answer.text


def test_an_address_that_there_is_not_is_a_page_for_a_browser_alone(browser: FlaskClient) -> None:
    page = browser.get("/playbook", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.mimetype) == (404, "text/html")
    assert "There is nothing at /playbook. Did you mean /playbooks?" in Page(page.text).text
    assert "nonce-" in page.headers["Content-Security-Policy"]
    program = browser.get("/playbook", headers={"Accept": "*/*"})
    assert (program.status_code, program.mimetype) == (404, "application/problem+json")


def test_a_restricted_token_sees_its_own_playbooks(closed: Flask, sim: Simulation) -> None:
    run = sim.start()
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "bob", ["read:etl/*"]).text)
    page = browser.get("/")
    assert "examples/doubling" not in page.text
    assert "No executions yet" in page.text
    assert browser.get(f"/executions/{run}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/api/openapi.json"])
def test_who_takes_that_gets_a_compressed_answer(browser: FlaskClient, path: str) -> None:
    plain = browser.get(path)
    assert "Content-Encoding" not in plain.headers
    assert "Accept-Encoding" in plain.headers["Vary"]
    packed = browser.get(path, headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data)
    assert b"openapi" in gzip.decompress(packed.data) or b"<html" in gzip.decompress(packed.data)


def test_what_is_short_or_a_stream_leaves_as_it_is(browser: FlaskClient) -> None:
    for path in ("/api/health", "/news?all=1"):
        answer = browser.get(path, headers={"Accept-Encoding": "gzip"}, buffered=False)
        assert "Content-Encoding" not in answer.headers
        answer.close()


def test_the_rules_of_style_are_closed(browser: FlaskClient) -> None:
    link = re.search(r'href="([^"]*style\.css)"', browser.get("/").text)
    assert link is not None
    depth = 0
    for number, line in enumerate(browser.get(link[1]).text.splitlines(), 1):
        assert depth == 0 or line.startswith(("  ", "}")), f"line {number} stands within a rule"
        depth += line.count("{") - line.count("}")
    assert depth == 0
