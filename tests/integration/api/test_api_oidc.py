"""Tokens of an OpenID Connect issuer: a real one on loopback, which signs with real keys."""

from __future__ import annotations

import hmac
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from flask import Flask
from flask.testing import FlaskClient
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

from noetl.api import issuer as issuer_module
from noetl.api.app import create_app
from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.testing import Simulation
from noetl.usecases import tokens
from tests import httpd

from .conftest import with_token

HERE = "/api/executions"
GRANTS = ("sre=operate", "etl=run:examples/*", "etl=read:ops/*")
DAY_S = 24 * 3600


def instant() -> int:
    """Now, as tokens say it: libraries look at this machine's clock."""
    return int(datetime.now(UTC).timestamp())


class SignIn:
    """An issuer: it serves its keys, and signs whatever it is asked to."""

    def __init__(self, server: httpd.Server) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.server_port}/realm"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.curve = ec.generate_private_key(ec.SECP256R1())
        self.published: list[dict[str, Any]] = [
            {**_jwk(RSAAlgorithm, self.key), "kid": "one", "alg": "RS256", "use": "sig"},
            {**_jwk(ECAlgorithm, self.curve), "kid": "two", "alg": "ES256", "use": "sig"},
        ]
        about = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        server.routes["/realm/.well-known/openid-configuration"] = lambda to: to.json(about)
        server.routes["/realm/keys"] = lambda to: to.json({"keys": self.published})

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = instant()
        known = {"iss": self.url, "aud": "noetl", "sub": "ada", "exp": now + DAY_S, "iat": now}
        made = {**known, "groups": ["sre"], **changes}
        return {name: value for name, value in made.items() if value is not None}

    def sign(self, key_id: str | None = "one", **changes: Any) -> str:
        key: Any = self.curve if key_id == "two" else self.key
        algorithm = "ES256" if key_id == "two" else "RS256"
        headers = None if key_id is None else {"kid": key_id}
        return jwt.encode(self.claims(**changes), key, algorithm, headers)

    @property
    def asked(self) -> int:
        """How often it was asked for its keys."""
        return sum(one["path"] == "/realm/keys" for one in self.server.seen)


def _jwk(algorithm: Any, key: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return made


@pytest.fixture
def sign_in() -> Iterator[SignIn]:
    server = httpd.started()
    yield SignIn(server)
    httpd.stopped(server)


@pytest.fixture
def app(make: Callable[..., Flask], sign_in: SignIn) -> Flask:
    return make(open=False, oidc_issuer=sign_in.url, oidc_audience="noetl", oidc_grants=GRANTS)


def asking(app: Flask, text: str) -> FlaskClient:
    return with_token(app.test_client(), text)


@pytest.mark.parametrize("key_id", ["one", "two"])
def test_who_signs_in_there_may_do_what_its_groups_may(app: Flask, sign_in: SignIn, key_id: str) -> None:
    ada = asking(app, sign_in.sign(key_id))
    assert ada.get("/api/whoami").json == {
        "principal": "ada",
        "groups": ["sre"],
        "scopes": ["operate"],
        "token_id": None,
        "open": False,
    }
    started = ada.post(HERE, json={"path": "examples/doubling"})
    assert ada.get(started.json["links"]["self"]).json["principal"] == "ada"
    some = asking(app, sign_in.sign(groups=["etl", "others"], sub="bob"))
    assert some.get("/api/whoami").json["scopes"] == ["run:examples/*", "read:ops/*"]
    assert some.post(f"{started.json['links']['self']}/cancel").status_code == 403
    assert sign_in.asked == 1


def sign_with_public_key(sign_in: SignIn) -> str:
    """As somebody does who only knows the key that is published; libraries refuse to."""
    public = sign_in.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    parts = ({"alg": "HS256", "typ": "JWT", "kid": "one"}, sign_in.claims())
    signed = b".".join(base64url_encode(json.dumps(part).encode()) for part in parts)
    return (signed + b"." + base64url_encode(hmac.digest(public, signed, "sha256"))).decode()


def test_what_is_not_good_is_refused(app: Flask, sign_in: SignIn, subtests: pytest.Subtests) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = sign_in.claims()
    bad = {
        "another audience": sign_in.sign(aud="others"),
        "no audience": sign_in.sign(aud=None),
        "expired": sign_in.sign(exp=instant() - DAY_S),
        "without an end": sign_in.sign(exp=None),
        "not yet": sign_in.sign(nbf=instant() + DAY_S),
        "another issuer": sign_in.sign(iss="https://elsewhere.example"),
        "no issuer": sign_in.sign(iss=None),
        "no signature": jwt.encode(claims, "", "none", {"kid": "one"}),
        "a key that is public": sign_with_public_key(sign_in),
        "an unknown key": sign_in.sign("three"),
        "no key of two": sign_in.sign(None),
        "another signature": jwt.encode(claims, stranger, "RS256", {"kid": "one"}),
        "another kind of key": jwt.encode(claims, sign_in.key, "RS256", {"kid": "two"}),
        "another algorithm": jwt.encode(claims, sign_in.key, "RS512", {"kid": "one"}),
        "cut": sign_in.sign()[:-4],
        "garbage": "a.b.c",
        "nobody": sign_in.sign(sub=None),
        "no text": sign_in.sign(sub="a\nb"),
        "anonymous": sign_in.sign(sub="anonymous"),
    }
    for name, text in bad.items():
        with subtests.test(name):
            answer = asking(app, text).get(HERE)
            assert answer.status_code == 401
            assert text not in answer.text
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_who_is_in_no_group_that_may_anything_is_told_its_groups(app: Flask, sign_in: SignIn) -> None:
    refused = asking(app, sign_in.sign(groups=["sales", "legal"])).get("/api/whoami")
    assert refused.status_code == 403
    assert "sales, legal" in refused.json["detail"]
    assert "NOETL_OIDC_GRANTS" in refused.json["detail"]
    for groups in (None, "sales", {"sre": 1}, [["sre"]], 7):
        assert asking(app, sign_in.sign(groups=groups)).get("/api/whoami").status_code == 403
    assert asking(app, sign_in.sign(groups="sre")).get("/api/whoami").status_code == 200


def test_everybody_may_be_granted_something_and_claims_are_named(
    make: Callable[..., Flask], sign_in: SignIn
) -> None:
    app = make(
        open=False,
        oidc_issuer=sign_in.url + "/",
        oidc_audience="noetl",
        oidc_principal="email",
        oidc_groups="realm.roles",
        oidc_grants=("*=read", "a=b=run"),
    )
    text = sign_in.sign(email="ada@example.org", groups=None, realm={"roles": ["a=b"]})
    told = asking(app, text).get("/api/whoami").json
    assert (told["principal"], told["groups"], told["scopes"]) == (
        "ada@example.org",
        ["a=b"],
        ["read", "run"],
    )
    plain = asking(app, sign_in.sign(email="bob", groups=None)).get("/api/whoami").json
    assert (plain["groups"], plain["scopes"]) == ([], ["read"])


def test_tokens_of_this_server_are_good_beside_them(app: Flask, sign_in: SignIn, sim: Simulation) -> None:
    text = tokens.create(sim.rt, "ci", ["read"]).text
    assert asking(app, text).get("/api/whoami").json["principal"] == "ci"
    assert asking(app, "noetl_x_y").get("/api/whoami").status_code == 401
    assert sign_in.asked == 0


def test_new_keys_are_found_and_the_issuer_is_not_asked_all_the_time(
    app: Flask, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asking(app, sign_in.sign()).get("/api/whoami").status_code == 200
    sign_in.published[0]["kid"] = "three"
    for _ in range(3):
        assert asking(app, sign_in.sign("three")).get("/api/whoami").status_code == 401
    assert sign_in.asked == 1
    monkeypatch.setattr(issuer_module, "AGAIN_S", 0.0)
    assert asking(app, sign_in.sign("three")).get("/api/whoami").status_code == 200
    assert asking(app, sign_in.sign("one")).get("/api/whoami").status_code == 401
    assert sign_in.asked == 3


def test_an_issuer_that_is_away_is_503_and_what_it_said_stays_good(
    app: Flask, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = sign_in.server.routes["/realm/keys"]
    sign_in.server.routes["/realm/keys"] = lambda to: to.answer(b"no", 500)
    for _ in range(3):
        away = asking(app, sign_in.sign()).get("/api/whoami")
        assert away.status_code == 503
        assert "Retry-After" in away.headers
    assert sign_in.asked == 1
    assert asking(app, sign_in.sign()).get("/api/health").status_code == 200
    monkeypatch.setattr(issuer_module, "AGAIN_S", 0.0)
    sign_in.server.routes["/realm/keys"] = keys
    assert asking(app, sign_in.sign()).get("/api/whoami").status_code == 200
    sign_in.server.routes["/realm/keys"] = lambda to: to.answer(b"no", 500)
    monkeypatch.setattr(issuer_module, "KEEP_S", 0.0)
    assert asking(app, sign_in.sign()).get("/api/whoami").status_code == 200


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"oidc_issuer": "http://login.example.org"}, "https"),
        ({"oidc_issuer": "login.example.org"}, "https"),
        ({"oidc_audience": ""}, "NOETL_OIDC_AUDIENCE"),
        ({"oidc_grants": ()}, "NOETL_OIDC_GRANTS"),
        ({"oidc_grants": ("sre",)}, "'sre'"),
        ({"oidc_grants": ("=read",)}, "'=read'"),
        ({"oidc_grants": ("sre=reed",)}, "Did you mean"),
    ],
)
def test_settings_that_cannot_be_used_stop_the_start(
    sim: Simulation, settings: dict[str, Any], named: str
) -> None:
    good = {"oidc_issuer": "https://login.example.org", "oidc_audience": "noetl", "oidc_grants": ("*=read",)}
    create_app(sim.rt, Settings(**good))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=named):
        create_app(sim.rt, Settings(**{**good, **settings}))  # type: ignore[arg-type]


def test_without_the_extra_the_start_says_how_to_install_it(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "noetl.api.issuer")
    settings = Settings(oidc_issuer="https://login.example.org", oidc_audience="a", oidc_grants=("*=read",))
    with pytest.raises(ConfigError, match=r"pip install 'noetl-celery\[oidc\]'"):
        create_app(sim.rt, settings)
