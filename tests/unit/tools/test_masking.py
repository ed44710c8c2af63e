"""The second net: what a call has opened is in nothing that it reports, in no spelling."""

from __future__ import annotations

import base64
import json
import logging
from urllib.parse import quote, quote_plus

import pytest

from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.tools.kit import call_secrets
from noetl.tools.kit.masking import MASK, SecretMask, texts_of
from tests.effort import calls

SECRET = "Kanari/1+x\"y'z é"


@pytest.fixture
def black() -> SecretMask:
    made = SecretMask()
    made.add([SECRET])
    return made


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        SECRET.replace("'", "''"),
        *(base64.b64encode(before + SECRET.encode() + b"behind").decode() for before in (b"", b"u", b"u:")),
        base64.urlsafe_b64encode(b"user:" + SECRET.encode()).decode(),
    ],
)
def test_a_secret_is_taken_out_in_every_spelling(black: SecretMask, spelled: str) -> None:
    text = black.text(f"before {spelled} behind")

    assert MASK in text
    assert text.startswith("before ")
    assert text.endswith(" behind")
    assert spelled not in text


def test_an_outcome_is_clean_in_all_its_parts(black: SecretMask) -> None:
    well = succeeded({"rows": [{SECRET: 1, "b": [SECRET]}]}, {"stdout": f"a {SECRET}"}, http={"h": SECRET})
    badly = failed(
        ErrorInfo("sql", f"no {SECRET}", traceback=f"line\n{SECRET}", status={"x": SECRET}),
        {"stderr": SECRET},
    )

    for outcome in (well, badly):
        assert "Kanari" not in repr(black.outcome(outcome))


def test_what_was_cut_in_the_middle_of_a_secret_is_taken_out_of_messages(black: SecretMask) -> None:
    error = ErrorInfo("sql", f"it said {SECRET[:9]}", traceback=f"{SECRET[5:]} and more")

    cleaned = black.outcome(Outcome("error", error=error)).error

    assert cleaned is not None
    assert (cleaned.message, cleaned.traceback) == ("it said ***", "*** and more")


@pytest.mark.parametrize(
    ("address", "echoed"),
    [
        ("https://h/echo?key=hook-secret-778899", "404: /echo?key=***&s=500"),
        ("https://h/echo?a=1&key=hook%2Dsecret%2D778899#t", "404: /echo?key=***&s=500"),
        ("https://h/services/T0/hook-secret-778899", "404: /echo?key=***&s=500"),
        ("postgresql://u@h/hook-secret-778899", "404: /echo?key=hook-secret-778899&s=500"),
        ("https://h/echo/orders", "404: /echo?key=hook-secret-778899&s=500"),
    ],
)
def test_of_a_secret_address_its_tokens_are_secret_and_its_plain_words_are_not(
    address: str, echoed: str
) -> None:
    made = SecretMask()
    made.add(texts_of({"hook": address}))

    assert made.text("404: /echo?key=hook-secret-778899&s=500") == echoed
    assert made.text(f"at {address}!") == "at ***!"


def test_values_without_a_secret_are_handed_back_as_they_are(black: SecretMask) -> None:
    value = {"rows": [{"a": 1, "b": None, "c": "x"}]}

    assert black.value(value) is value
    outcome = succeeded(value)
    assert SecretMask().outcome(outcome) is outcome


def test_short_secrets_and_plain_words_do_not_tear_up_innocent_data() -> None:
    black = SecretMask()
    black.add(["abc", "postgres", "x1"])

    assert black.text("abc postgres x1") == "abc postgres x1"
    black.add(["x1"], params=["key"])
    assert black.text("http://h/?key=x1&a=1") == "http://h/?key=***&a=1"


def test_of_a_credential_what_is_public_may_be_seen() -> None:
    data = {
        "host": "db.internal",
        "user": "etl_user",
        "password": "s3cret-pw",
        "dsn": "pg://u:other%20pw@h/d",
    }

    assert set(texts_of(data)) == {"s3cret-pw", "pg://u:other%20pw@h/d", "other pw"}
    assert set(texts_of({"deep": {"a": ["one-secret", 123456789]}})) == {"one-secret", "123456789"}


def test_the_longest_known_secrets_are_forgotten_first() -> None:
    black = SecretMask(most=20)
    for number in range(100):
        black.add([f"secret-number-{number:03}"])

    assert black.text("secret-number-099 secret-number-000") == "*** secret-number-000"


def test_a_large_result_is_looked_through_in_few_calls_for_each_value(black: SecretMask) -> None:
    rows = [{"id": n, "name": f"name {n}", "city": "x" * 20} for n in range(2_000)]
    assert black.value(rows) is rows
    assert calls(lambda: black.value(rows)) < 30 * len(rows)


def test_the_log_of_a_process_tells_no_secret_that_was_opened_in_it(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogRecordFactory()
    call_secrets.mask_log()
    try:
        call_secrets.hide(["Kanari-of-the-log"])
        log = logging.getLogger("noetl.tests")
        try:
            raise ValueError("bad Kanari-of-the-log")
        except ValueError:
            log.exception("GET /?k=%s failed", "Kanari-of-the-log")
    finally:
        logging.setLogRecordFactory(before)

    assert "GET /?k=*** failed" in caplog.text
    assert "ValueError: bad ***" in caplog.text
    assert "Kanari-of" not in caplog.text
