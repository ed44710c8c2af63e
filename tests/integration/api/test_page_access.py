"""The page of credentials, tokens and the audit, as a browser without scripts sees it: what is
secret goes in and never comes out."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.errors import Unauthenticated
from noetl.facts.callers import Caller
from noetl.testing import Simulation
from noetl.tools.secrets.vault import FernetVault
from noetl.usecases import audit, credentials, tokens
from noetl.usecases.ports import AuditEntry, AuditFilter

from .browsing import OWN, Page, sign_in

#: Nothing but the database ever has it, encrypted.
CANARY = "canary-9f3b-never-shown"
TABS = ("", "?tab=tokens", "?tab=audit", "?new=basic&name=db")


@pytest.fixture
def signed(closed: Flask, sim: Simulation) -> Callable[..., FlaskClient]:
    """A browser in which somebody with these scopes has signed in."""

    def sign(*scopes: str, principal: str = "root") -> FlaskClient:
        browser = closed.test_client()
        sign_in(browser, tokens.create(sim.rt, principal, scopes).text)
        return browser

    return sign


def show(browser: FlaskClient, query: str = "") -> str:
    answer = browser.get(f"/access{query}")
    assert answer.status_code == 200, Page(answer.text).text
    return answer.text


def text_of(browser: FlaskClient, query: str = "") -> str:
    return " ".join(Page(show(browser, query)).text.split())


def post(browser: FlaskClient, act: str, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    key = Page(browser.get("/login").text).fields["form_key"]
    return browser.post(
        "/access", data={"form_key": key, "act": act, **fields}, headers={**OWN, **(headers or {})}
    )


def kept(sim: Simulation) -> list[tuple[str, str, str]]:
    return [(row.name, row.type, row.place) for row in credentials.credentials(sim.rt)]


# --- who may --------------------------------------------------------------------------------------


def test_the_page_is_for_admins_and_others_are_told_so(signed: Callable[..., FlaskClient]) -> None:
    other = signed("read", "run", "operate", "approve", principal="eve")
    assert "/access" not in Page(other.get("/").text).links
    for query in TABS:
        answer = other.get(f"/access{query}")
        assert (answer.status_code, "eve has no scope `admin`" in Page(answer.text).text) == (403, True)
    assert post(other, "create_token", principal="eve", scope="admin", days="0").status_code == 403
    assert "/access" in Page(signed("admin").get("/").text).links


def test_admins_of_some_playbooks_see_their_credentials_and_nothing_else(
    signed: Callable[..., FlaskClient], sim: Simulation
) -> None:
    for name, path in (("ours", "etl/a"), ("theirs", "web"), ("everybodys", None)):
        credentials.save(sim.rt, name, "generic", {"a": "b"}, credentials.audience(path))
    some = signed("admin:etl/*", principal="ada")
    page = Page(show(some))
    assert "ours" in page.text
    assert "theirs" not in page.text
    assert "everybodys" not in page.text
    assert not any("tab=" in one for one in page.links)
    for tab in ("tokens", "audit"):
        assert some.get(f"/access?tab={tab}").status_code == 403
    for fields in ({"path": "web"}, {}):
        saved = post(some, "save_credential", name="x", type="basic", **{"field.username": "u"}, **fields)
        assert saved.status_code == 403
        assert post(some, "delete_credential", name="theirs", sure="yes", **fields).status_code == 403
    for act in ("create_token", "revoke_token"):
        assert post(some, act, principal="ada", scope="admin", days="0", token_id="x").status_code == 403
    assert len(kept(sim)) == 3
    post(some, "save_credential", name="x", type="basic", path="etl/b", **{"field.username": "u"})
    assert ("x", "basic", "etl/b") in kept(sim)


@pytest.mark.parametrize("act", ["save_credential", "delete_credential", "create_token", "revoke_token"])
def test_nothing_changes_without_the_key_of_a_form_of_ours(
    browser: FlaskClient, sim: Simulation, act: str
) -> None:
    credentials.save(sim.rt, "db", "generic", {"a": "b"})
    made = tokens.create(sim.rt, "ci", ["read"])
    fields = {"act": act, "name": "db", "type": "basic", "field.username": "u", "sure": "yes", "days": "0"}
    fields |= {"principal": "ci", "scope": "admin", "token_id": made.row.token_id}
    assert browser.post("/access", data={**fields, "form_key": "x"}, headers=OWN).status_code == 400
    elsewhere = {"Origin": "https://evil.example"}
    assert post(browser, headers=elsewhere, **fields).status_code == 403
    assert kept(sim) == [("db", "generic", "")]
    assert tokens.tokens(sim.rt) == [made.row]


@pytest.mark.parametrize("query", ["?tab=nothing", "?new=magic"])
def test_what_there_is_not_is_said(browser: FlaskClient, query: str) -> None:
    assert browser.get(f"/access{query}").status_code in (400, 404)
    assert post(browser, "explode").status_code == 400


# --- credentials ----------------------------------------------------------------------------------


def test_a_credential_is_kept_and_its_values_are_never_shown(
    browser: FlaskClient, sim: Simulation, vault: FernetVault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fields = {"field.host": "db.example", "field.port": "5432", "field.user": "etl", "field.password": CANARY}
    more = {"more_name": ["options", ""], "more_value": [CANARY, ""]}
    saved = post(browser, "save_credential", name="warehouse", type="postgres", path="etl", **fields, **more)
    assert (saved.status_code, saved.headers["Location"]) == (303, "/access")
    (row,) = credentials.credentials(sim.rt)
    assert (row.name, row.type, row.place) == ("warehouse", "postgres", "etl")
    assert vault.decrypt(row.data) == {
        "host": "db.example",
        "port": 5432,
        "user": "etl",
        "password": CANARY,
        "options": CANARY,
    }
    told = text_of(browser)
    assert "warehouse postgres playbooks at etl and below host, options, password, port, user" in told
    assert "by anonymous" in told
    pages = [saved.text, *(show(browser, query) for query in TABS)]
    pages += [show(browser, "?new=postgres&name=warehouse&path=etl"), _seen_elsewhere(browser)]
    assert not [one for one in pages if CANARY in one or "db.example" in one]
    assert CANARY not in caplog.text
    entries = audit.entries(sim.rt, AuditFilter(action="credential.saved"))
    assert CANARY not in json.dumps([audit.entry_view(one) for one in entries])


def _seen_elsewhere(browser: FlaskClient) -> str:
    answers = [browser.get(one) for one in ("/api/credentials", "/api/audit")]
    assert all(one.status_code == 200 for one in answers)
    return " ".join(one.text for one in answers)


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"type": "bearer", "name": "a b", "field.token": CANARY}, 400, "is not a credential name"),
        ({"type": "bearer", "name": "x", "field.token": ""}, 400, "at least one field"),
        ({"type": "basic", "name": "x", "field.password": CANARY}, 400, "needs `username`"),
        ({"type": "generic", "name": "x", "more_name": "", "more_value": CANARY}, 400, "has no name"),
        ({"type": "bearer", "name": "x", "field.token": CANARY, "execution": "99"}, 404, "no execution '99'"),
        (
            {"type": "bearer", "name": "x", "field.token": CANARY, "execution": "9", "path": "a"},
            400,
            "for a path or for an execution",
        ),
    ],
)
def test_what_is_wrong_with_a_credential_is_said_beside_its_form_without_what_is_secret(
    browser: FlaskClient, sim: Simulation, fields: dict[str, str], status: int, said: str
) -> None:
    answer = post(browser, "save_credential", **fields)
    page = Page(answer.text)
    assert (answer.status_code, said in page.text) == (status, True)
    assert CANARY not in answer.text
    assert page.fields["name"] == fields["name"]
    assert kept(sim) == []


def test_what_is_no_secret_need_not_be_typed_again(browser: FlaskClient) -> None:
    fields = {"field.client_id": "noetl", "field.client_secret": CANARY, "field.token_url": "nowhere"}
    page = Page(post(browser, "save_credential", name="idp", type="oauth2", **fields).text)
    assert (page.fields["field.client_id"], page.fields["field.token_url"]) == ("noetl", "nowhere")
    assert (page.types["field.client_secret"], page.fields["field.client_secret"]) == ("password", "")


def test_a_credential_is_replaced_as_a_whole(
    browser: FlaskClient, sim: Simulation, vault: FernetVault
) -> None:
    credentials.save(sim.rt, "api", "bearer", {"token": CANARY}, credentials.audience("etl"))
    address = next(one for one in Page(show(browser)).links if "new=bearer" in one)
    page = browser.get(address)
    fields = Page(page.text).fields
    assert CANARY not in page.text
    assert (fields["name"], fields["path"], fields["field.token"]) == ("api", "etl", "")
    browser.post("/access", data={**_form(fields), "field.token": "new"}, headers=OWN)
    (row,) = credentials.credentials(sim.rt)
    assert vault.decrypt(row.data) == {"token": "new"}


def _form(fields: dict[str, str]) -> dict[str, str]:
    return {**fields, "act": "save_credential", "type": "bearer"}


def test_a_credential_is_deleted_once_that_is_confirmed(browser: FlaskClient, sim: Simulation) -> None:
    credentials.save(sim.rt, "db", "generic", {"a": "b"})
    credentials.save(sim.rt, "db", "generic", {"a": "b"}, credentials.audience("etl"))
    asked = post(browser, "delete_credential", name="db", path="etl")
    assert "Delete the credential db?" in Page(asked.text).text
    assert len(kept(sim)) == 2
    done = post(browser, "delete_credential", name="db", path="etl", sure="yes")
    assert (done.status_code, done.headers["Location"]) == (303, "/access")
    assert kept(sim) == [("db", "generic", "")]
    again = post(browser, "delete_credential", name="db", path="etl", sure="yes")
    assert (again.status_code, "is kept for global" in Page(again.text).text) == (404, True)
    part = post(browser, "delete_credential", headers={"HX-Request": "true"}, name="db", sure="yes")
    assert (part.status_code, part.headers["HX-Redirect"]) == (204, "/access")
    assert [one.action for one in audit.entries(sim.rt, AuditFilter(subject="db"))] == [
        "credential.deleted"
    ] * 2


def test_a_credential_tells_who_saved_the_one_that_is_there(
    make: Callable[..., Flask], sim: Simulation
) -> None:
    browser = make().test_client()
    post(browser, "save_credential", name="db", type="bearer", **{"field.token": "x"})
    credentials.save(sim.rt, "db", "basic", {"username": "u"}, credentials.audience("etl"))
    told = text_of(browser)
    assert "db bearer all playbooks token" in told
    assert "db basic playbooks at etl and below not known" in told, "no request has saved it"


# --- tokens ---------------------------------------------------------------------------------------


def _token_in(text: str) -> str:
    (found,) = re.findall(r"noetl_[a-z0-9]{10}_[A-Za-z0-9_-]{43}", text)
    return str(found)


def test_a_token_is_shown_once(
    browser: FlaskClient, sim: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fields = {"principal": "ci", "scope": ["read", "run"], "paths": "etl/*, web", "groups": "ops data"}
    made = post(browser, "create_token", **fields, days="7", rate="100/minute")
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    assert "It is shown only once" in Page(made.text).text
    text = _token_in(made.text)
    principal = tokens.recognize(sim.rt, text)
    assert [str(one) for one in principal.grants] == ["read:etl/*", "read:web", "run:etl/*", "run:web"]
    assert (principal.name, principal.groups, principal.rate) == ("ci", ("ops", "data"), "100/minute")
    (row,) = tokens.tokens(sim.rt)
    assert row.expires_at == sim.now + timedelta(days=7)
    secret = text.split("_", 2)[2]
    for query in TABS:
        answer = browser.get(f"/access{query}")
        assert secret not in answer.text
        assert "no-store" in answer.headers["Cache-Control"]
    assert secret not in caplog.text
    entries = audit.entries(sim.rt, AuditFilter(action="token"))
    assert [(one.action, one.subject, one.caller.principal) for one in entries] == [
        ("token.created", row.token_id, "anonymous")
    ]


def test_a_token_may_be_good_until_it_is_revoked(browser: FlaskClient, sim: Simulation) -> None:
    made = post(browser, "create_token", principal="ci", scope="admin", days="0")
    assert "never expires" in " ".join(Page(made.text).text.split())
    (row,) = tokens.tokens(sim.rt)
    assert (row.expires_at, row.grants) == (None, ("admin",))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"principal": "a b"}, "is no name for a principal"),
        ({"scope": []}, "Give at least one scope"),
        ({"scope": "work"}, "is no scope"),
        ({"paths": "a[b]"}, "grants no path"),
        ({"rate": "often"}, "often"),
        ({"days": "9999"}, "is no lifetime that is offered"),
    ],
)
def test_what_is_wrong_with_a_token_is_said_beside_its_form(
    browser: FlaskClient, sim: Simulation, change: dict[str, Any], said: str
) -> None:
    fields = {"principal": "ci", "scope": "read", "days": "30", **change}
    answer = post(browser, "create_token", **fields)
    assert (answer.status_code, said in Page(answer.text).text) == (400, True)
    assert tokens.tokens(sim.rt) == []


def test_tokens_say_what_they_may_and_whether_they_are_good(browser: FlaskClient, sim: Simulation) -> None:
    tokens.create(sim.rt, "old", ["read"], lifetime=timedelta(days=1))
    sim.now += timedelta(minutes=1)
    gone = tokens.create(sim.rt, "gone", ["admin"], lifetime=None)
    tokens.revoke(sim.rt, gone.row.token_id)
    sim.now += timedelta(days=2)
    used = tokens.create(sim.rt, "new", ["run:etl/*"], groups=["ops"], rate="5/second")
    tokens.recognize(sim.rt, used.text)
    told = text_of(browser, "?tab=tokens")
    assert (
        told.index("good new ops run:etl/* 5/second") < told.index("revoked gone") < told.index("expired old")
    )
    assert told.count("Revoke the token") == 1


def test_a_token_is_revoked_once_that_is_confirmed(
    signed: Callable[..., FlaskClient], sim: Simulation
) -> None:
    browser, other = signed("admin"), tokens.create(sim.rt, "ci", ["read"])
    asked = post(browser, "revoke_token", token_id=other.row.token_id)
    assert f"Revoke the token {other.row.token_id} of ci?" in Page(asked.text).text
    assert "You are signed in with this token" not in Page(asked.text).text
    tokens.recognize(sim.rt, other.text)
    done = post(browser, "revoke_token", token_id=other.row.token_id, sure="yes")
    assert (done.status_code, done.headers["Location"]) == (303, "/access?tab=tokens")
    with pytest.raises(Unauthenticated):
        tokens.recognize(sim.rt, other.text)
    (entry,) = audit.entries(sim.rt, AuditFilter(action="token.revoked"))
    assert (entry.caller.principal, entry.subject) == ("root", other.row.token_id)
    own = next(row for row in tokens.tokens(sim.rt) if row.principal == "root")
    asked = post(browser, "revoke_token", token_id=own.token_id)
    assert "You are signed in with this token" in Page(asked.text).text
    assert post(browser, "revoke_token", token_id="nobodys").status_code == 404


# --- the audit ------------------------------------------------------------------------------------


@pytest.fixture
def asked(signed: Callable[..., FlaskClient], sim: Simulation) -> FlaskClient:
    """A browser of somebody who looks at what others have asked for."""
    browser = signed("admin")
    for number in range(3):
        post(browser, "save_credential", name=f"db-{number}", type="bearer", **{"field.token": "x"})
    sim.now += timedelta(hours=2)
    ada = signed("admin", principal="ada")
    post(ada, "create_token", principal="ci", scope="read", days="1")
    return browser


def rows(browser: FlaskClient, query: str) -> list[str]:
    text = show(browser, f"?tab=audit{query}")
    return [" ".join(Page(f"<tr{row}").text.split()) for row in text.split("<tr")[2:]]


def test_the_audit_is_newest_first_and_is_narrowed_by_its_address(asked: FlaskClient) -> None:
    everything = rows(asked, "")
    assert [row.split()[4] for row in everything[:1]] == ["token.created"]
    assert len(rows(asked, "&action=credential")) == 3
    assert len(rows(asked, "&action=credential.saved&subject=db-1")) == 1
    assert [" ada token.created " in row for row in rows(asked, "&principal=ada")] == [True]
    assert len(rows(asked, "&since=-1h")) == 1
    assert len(rows(asked, "&until=-1h&principal=root")) == 3
    page = Page(show(asked, "&".join(["?tab=audit", "principal=root", "subject=db-1"])))
    assert "/access?tab=audit&subject=db-1" in page.links, "each filter can be taken away"
    assert page.fields["principal"] == "root"


def test_pages_of_the_audit_hold_each_entry_once(browser: FlaskClient, sim: Simulation) -> None:
    ada = Caller("ada", "r-1")
    with sim.rt.store.begin() as tx:
        for number in range(150):
            tx.audit.add(AuditEntry(ada, "credential.saved", f"db-{number}", sim.now))
    found, query = [], "?tab=audit&action=credential"
    while query:
        page = show(browser, query)
        found.append(re.findall(r">(db-\d+)</a>", page))
        query = next((one.removeprefix("/access") for one in Page(page).links if "before=" in one), "")
    assert [len(one) for one in found] == [100, 50]
    assert [one for page in found for one in page] == [f"db-{number}" for number in reversed(range(150))]


def test_an_entry_of_an_execution_leads_to_its_page(
    browser: FlaskClient, sim: Simulation, started: Callable[..., str]
) -> None:
    execution_id = started(n="<script>alert(1)</script>")
    page = show(browser, f"?tab=audit&subject={execution_id}")
    assert f"/executions/{execution_id}" in Page(page).links
    assert "<script>alert" not in page


@pytest.mark.parametrize("query", ["&since=soon", "&until=1", "&before=x", "&before=0"])
def test_what_is_wrong_with_a_filter_of_the_audit_is_said(browser: FlaskClient, query: str) -> None:
    assert "which is no number" in text_of(browser, f"?tab=audit{query}") or "is no instant" in text_of(
        browser, f"?tab=audit{query}"
    )
