"""An inner address is recognised in whatever it is written."""

from __future__ import annotations

import socket

import pytest

from noetl.errors import ToolError
from noetl.tools.kit.http import addresses
from noetl.tools.kit.http.addresses import AddressGuard, normal_host, reachable, why_forbidden


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "a loopback"),
        ("10.1.2.3", "a private"),
        ("172.31.0.1", "a private"),
        ("192.168.1.1", "a private"),
        ("169.254.169.254", "a link-local"),
        ("100.64.0.1", "a carrier-grade NAT"),
        ("0.0.0.0", "an unspecified"),
        ("224.0.0.1", "a multicast"),
        ("255.255.255.255", "a reserved"),
        ("192.0.2.1", "a reserved"),
        ("::", "an unspecified"),
        ("::1", "a loopback"),
        ("::ffff:169.254.169.254", "a link-local"),
        ("::ffff:0:127.0.0.1", "a loopback"),
        ("::127.0.0.1", "a loopback"),
        ("64:ff9b::7f00:1", "a loopback"),
        ("64:ff9b:1::1", "a private"),
        ("2002:7f00:1::", "a loopback"),
        ("fe80::1%eth0", "a link-local"),
        ("fd00::1", "a private"),
        ("ff02::1", "a multicast"),
        ("2001:db8::1", "a reserved"),
        ("8.8.8.8", None),
        ("::ffff:8.8.8.8", None),
        ("2606:4700::1111", None),
    ],
)
def test_an_address_is_public_or_has_a_reason_not_to_be(address: str, reason: str | None) -> None:
    assert why_forbidden(address) == reason


@pytest.mark.parametrize(
    "spelling",
    [
        "2130706433",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "0x7F000001",
        "127.0.0.1.",
    ],
)
def test_every_spelling_of_loopback_is_one_address(spelling: str) -> None:
    assert normal_host(spelling) == "127.0.0.1"
    with pytest.raises(ToolError, match=r"127\.0\.0\.1, a loopback address"):
        reachable(spelling, 80, guard=AddressGuard())


@pytest.mark.parametrize(
    "host", ["[::1]", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "localhost", "0.0.0.0", "100.64.0.1"]
)
def test_inner_hosts_are_blocked(host: str) -> None:
    with pytest.raises(ToolError, match="address; calls from here may reach public addresses only") as caught:
        reachable(host, 80, guard=AddressGuard())

    assert caught.value.kind == "client_error"


def test_inner_hosts_are_reached_where_that_is_allowed() -> None:
    assert {
        endpoint.address for endpoint in reachable("127.1", 80, guard=AddressGuard(allow_private=True))
    } == {"127.0.0.1"}


@pytest.mark.parametrize("host", ["", ".", "a b", "a\nb", "a@b", "x" * 300])
def test_anything_but_a_host_is_refused(host: str) -> None:
    with pytest.raises(ToolError, match="is not the name of a host"):
        normal_host(host)


def test_one_inner_address_among_public_ones_blocks_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *args: answers)

    with pytest.raises(ToolError, match=r"'two\.example' leads to 10\.0\.0\.1, a private address"):
        reachable("two.example", 80, guard=AddressGuard())
