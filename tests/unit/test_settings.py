"""Settings of the environment that are more than a number."""

from __future__ import annotations

import pytest

from noetl.config import Settings
from noetl.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "http://127.0.0.1:8642"),
        ({"NOETL_PUBLIC_URL": ""}, "http://127.0.0.1:8642"),
        ({"NOETL_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"NOETL_HOST": "0.0.0.0"}, "http://127.0.0.1:8642"),
        ({"NOETL_HOST": "::"}, "http://127.0.0.1:8642"),
        ({"NOETL_HOST": "::1"}, "http://[::1]:8642"),
        ({"NOETL_HOST": "noetl.lan"}, "http://noetl.lan:8642"),
        ({"NOETL_PUBLIC_URL": "https://noetl.example.com"}, "https://noetl.example.com"),
        ({"NOETL_PUBLIC_URL": " http://x:1/flows/ ", "NOETL_PORT": "9000"}, "http://x:1/flows"),
    ],
)
def test_services_outside_are_told_where_the_api_is(given: dict[str, str], expected: str) -> None:
    assert Settings.from_env(given).outer_url == expected


@pytest.mark.parametrize(
    "text", ["noetl.example.com", "ftp://x", "https://", "https://u:p@x", "https://x?a=1", "https://x#a"]
)
def test_what_is_no_address_of_a_server_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="NOETL_PUBLIC_URL="):
        Settings.from_env({"NOETL_PUBLIC_URL": text})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "http://127.0.0.1:5555"),
        ({"NOETL_FLOWER_PORT": "9"}, "http://127.0.0.1:9"),
        ({"NOETL_FLOWER_URL": " http://flower:5555/ ", "NOETL_FLOWER_PORT": "9"}, "http://flower:5555"),
        ({"NOETL_FLOWER_URL": "https://[fd00::7]"}, "https://[fd00::7]"),
    ],
)
def test_the_server_knows_where_flower_is(given: dict[str, str], expected: str) -> None:
    assert Settings.from_env(given).flower == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((one, "no http or https address") for one in ("flower:5555", "ftp://x", "http://", "http://x?a=1")),
        *((f"http://x{more}", "nothing may stand behind host and port") for more in ("/flower", "/;a")),
        *((f"http://x:{port}", "") for port in ("0", "65536", "a")),
        ("http://x y", "host or port cannot be"),
    ],
)
def test_what_is_no_address_of_a_flower_is_refused_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"NOETL_FLOWER_URL=.* cannot be used .*{why}.*NOETL_FLOWER_AUTH"):
        Settings.from_env({"NOETL_FLOWER_URL": text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NOETL_FLOWER_URL", "http://noetl:pass-word@flower:5555"),
        ("NOETL_FLOWER_URL", "http://noetl:pass@-word@flower"),
        ("NOETL_FLOWER_URL", "http://noetl:pass/-word@flower"),
        ("NOETL_FLOWER_AUTH", "pass-word"),
    ],
)
def test_a_password_that_cannot_be_used_is_not_shown(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}='.*\*\*\*.*' cannot be used") as caught:
        Settings.from_env({name: text})
    assert "word" not in str(caught.value).replace("password", "")


def test_a_flower_of_another_machine_has_to_have_a_password() -> None:
    given = {"NOETL_FLOWER_URL": "http://flower:5555"}
    with pytest.raises(ConfigError, match="NOETL_FLOWER_AUTH"):
        Settings.from_env(given).check_flower()
    Settings.from_env({**given, "NOETL_FLOWER_AUTH": "noetl:p"}).check_flower()
    Settings.from_env({}).check_flower()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NOETL_QUEUE_LIMITS", "http=20,python=3"),
        ("NOETL_CORS_ORIGINS", "https://a.example,https://b.example"),
    ],
)
def test_another_process_reads_the_same_settings(name: str, text: str) -> None:
    settings = Settings.from_env({name: text})
    assert Settings.from_env(settings.as_environ()) == settings


def test_whoever_reads_settings_warns_once_of_names_that_nothing_reads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"NOETL_DATABSE_URL": "postgresql://db/noetl", "NOETL_QZX": "1"}
    for _ in range(2):
        Settings.from_env(given)
    assert [record.getMessage() for record in caplog.records] == [
        "Nothing reads NOETL_DATABSE_URL: did you mean NOETL_DATABASE_URL?",
        "Nothing reads NOETL_QZX: unset it, or see docs/operations.md for those there are.",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@pytest.mark.parametrize(
    "given",
    [
        {"NOETL_STAGE": "test", "NOETL_ENV_ALLOW": "NOETL_STAGE"},
        {"NOETL_TEST_PROFILE": "full", "NOETL_PORT": "9000"},
    ],
)
def test_what_playbooks_and_tests_are_handed_is_read(
    given: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    Settings.from_env(given)
    assert caplog.records == []
