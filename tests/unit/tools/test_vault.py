"""Credentials are kept encrypted, and no message tells them."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from noetl.errors import BadRequest, ConfigError, ToolError
from noetl.facts.callbacks import TaskAddress
from noetl.tools.secrets.vault import FernetVault, generate_key, load_or_create_key
from noetl.tools.sql.dsn import postgres_dsn

SECRET = {"user": "ann", "password": "hunter22"}


def test_a_credential_comes_back_as_it_went_in() -> None:
    vault = FernetVault(generate_key())
    token = vault.encrypt(SECRET)

    assert vault.decrypt(token) == SECRET
    assert b"hunter22" not in token
    assert vault.encrypt(SECRET) != token


def test_the_first_key_encrypts_and_an_older_one_still_decrypts() -> None:
    old, new = generate_key(), generate_key()
    token = FernetVault(old).encrypt(SECRET)
    both = FernetVault(f"{new}, {old}")

    assert both.decrypt(token) == SECRET
    assert FernetVault(new).decrypt(both.encrypt(SECRET)) == SECRET


def test_a_wrong_key_says_what_to_do_and_nothing_of_the_secret() -> None:
    key = generate_key()
    token = FernetVault(generate_key()).encrypt(SECRET)

    with pytest.raises(ConfigError, match="add the key that encrypted it") as caught:
        FernetVault(key).decrypt(token)

    assert key not in str(caught.value)
    assert key not in repr(FernetVault(key))


@pytest.mark.parametrize(
    ("keys", "message"),
    [("", "no key"), ("abc", "Key 1"), (generate_key() + ",é", "Key 2")],
    ids=["none", "too short", "not ASCII"],
)
def test_a_key_that_is_not_one_is_refused(keys: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        FernetVault(keys)

    assert "abc" not in str(caught.value)


def test_data_that_is_not_json_is_refused_without_quoting_it() -> None:
    with pytest.raises(BadRequest) as caught:
        FernetVault(generate_key()).encrypt({"password": b"hunter22"})

    assert "hunter22" not in str(caught.value)


def test_a_key_file_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "credentials.key"
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(load_or_create_key(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert set(found) == {load_or_create_key(path)}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["credentials.key"]
    FernetVault(found[0])


def test_an_empty_key_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("\n")

    with pytest.raises(ConfigError, match="is empty"):
        load_or_create_key(path)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"host": "h", "port": 5433, "user": "u", "password": "p", "database": "d", "note": "x"},
            {"host": "h", "port": "5433", "user": "u", "password": "p", "dbname": "d"},
        ),
        (
            {"dsn": "postgresql+psycopg2://u:p%40@h:5433/d?sslmode=require", "database": "other"},
            {
                "host": "h",
                "port": "5433",
                "user": "u",
                "password": "p@",
                "dbname": "other",
                "sslmode": "require",
            },
        ),
        ({"dsn": "host=/run/pg dbname=d"}, {"host": "/run/pg", "dbname": "d"}),
        ({"db_host": "h", "db_name": "d"}, {"host": "h", "dbname": "d"}),
    ],
)
def test_a_postgres_credential_becomes_settings_of_the_driver(
    data: dict[str, object], expected: dict[str, str]
) -> None:
    assert postgres_dsn(data) == expected


@pytest.mark.parametrize(
    "data", [{"dsn": "host=h pass word=hunter22"}, {"dsn": "host=h password=hunter22 passfile=/x"}, {}]
)
def test_a_dsn_that_cannot_be_used_is_refused_without_quoting_it(data: dict[str, object]) -> None:
    with pytest.raises(ToolError) as caught:
        postgres_dsn(data)

    assert caught.value.kind == "auth"
    assert "hunter22" not in str(caught.value)


def test_the_first_key_makes_the_tokens_of_addresses_and_an_older_one_still_reads_them() -> None:
    old, new = generate_key(), generate_key()
    address = TaskAddress("1", "start#1", 0, "answer")
    token = FernetVault(old).make_token(address)
    both = FernetVault(f"{new}, {old}")

    assert both.read_token(token) == address
    assert both.make_token(address) != token
    assert FernetVault(new).read_token(both.make_token(address)) == address
    assert FernetVault(new).read_token(token) is None


def test_a_seal_of_a_reference_is_no_token_of_an_address() -> None:
    """Each is made with a key of its own."""
    vault = FernetVault(generate_key())
    seal = str(vault.seal({"kind": "secret_ref", "execution": "1", "keychain": "k"})["seal"])
    token = vault.make_token(TaskAddress("1", "start#1", None, "k"))

    assert vault.read_token(f"{token.partition('.')[0]}.{seal}") is None
