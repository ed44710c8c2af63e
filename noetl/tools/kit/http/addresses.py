"""Which network addresses a call may reach, whatever they are written like.

A host is resolved once; every address that it has is looked at, and exactly those are connected to:
a name that answers differently the next time (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import unicodedata
from dataclasses import dataclass
from typing import Any, TypeAlias

from noetl.errors import ToolError

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Networks: TypeAlias = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

#: Blocks of IPv6 that carry an IPv4 address: (network, how many bits stand to the right of it).
_CARRIERS = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
#: What the address registries call special; the first that fits names the reason.
_BLOCKS = tuple(
    (ipaddress.ip_network(block), reason)
    for block, reason in (
        ("0.0.0.0/8", "an unspecified"),
        ("127.0.0.0/8", "a loopback"),
        ("169.254.0.0/16", "a link-local"),
        ("100.64.0.0/10", "a carrier-grade NAT"),
        ("10.0.0.0/8", "a private"),
        ("172.16.0.0/12", "a private"),
        ("192.168.0.0/16", "a private"),
        ("224.0.0.0/4", "a multicast"),
        ("::/128", "an unspecified"),
        ("::1/128", "a loopback"),
        ("fe80::/10", "a link-local"),
        ("fec0::/10", "a site-local"),
        ("fc00::/7", "a private"),
        ("ff00::/8", "a multicast"),
        ("64:ff9b:1::/48", "a private"),
        ("2001::/32", "a tunnelled"),
    )
)
_INET_ATON = re.compile(r"(?:0[xX][0-9a-fA-F]*|\d+)(?:\.(?:0[xX][0-9a-fA-F]*|\d+)){0,3}", re.ASCII)
_NOT_IN_HOST = re.compile(r"[\x00-\x20\x7f/\\?#@<>^|\"`{}%]")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address to connect to, as `socket.socket` and `connect` want it."""

    family: int
    type: int
    proto: int
    sockaddr: tuple[Any, ...]

    @property
    def address(self) -> str:
        return str(self.sockaddr[0])


def normal_host(host: str) -> str:
    """The one spelling of a host: `0x7f.1`, `2130706433` and full-width digits become `127.0.0.1`.

    Raises ToolError(client_error) where it is not a host at all.
    """
    plain = unicodedata.normalize("NFKC", host).replace("。", ".").lower()
    zone = ""
    if plain.startswith("[") and plain.endswith("]"):
        plain = plain[1:-1]
    if ":" in plain:
        plain, percent, zone = plain.partition("%")
        zone = percent + zone
    plain = plain.removesuffix(".")
    if not plain or len(plain) > 253 or _NOT_IN_HOST.search(plain):
        raise ToolError("client_error", f"'{host[:100]}' is not the name of a host; check the URL.")
    if _INET_ATON.fullmatch(plain):
        with contextlib.suppress(OSError):
            plain = socket.inet_ntoa(socket.inet_aton(plain))
    return plain + zone


def why_forbidden(address: str) -> str | None:
    """Why `address` (an IP address) is not public, such as `a loopback`; None where it is
    public."""
    ip = _inner_address(address)
    for block, reason in _BLOCKS:
        if ip.version == block.version and ip in block:
            return reason
    return None if ip.is_global and not ip.is_multicast else "a reserved"


def _inner_address(address: str) -> IpAddress:
    """The IPv4 address inside of `address`, where a gateway or the kernel would take it out; else
    the address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address) or int(ip) <= 1:
        return ip
    for block, shift in _CARRIERS:
        if ip in block:
            return ipaddress.IPv4Address(int(ip) >> shift & 0xFFFFFFFF)
    return ip


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Which addresses may be reached: public ones, those in `networks`, or all where private ones
    are allowed."""

    allow_private: bool = False
    networks: Networks = ()

    def refusal(self, address: str) -> str | None:
        """Why `address` may not be reached, such as `a loopback`; None where it may."""
        if self.allow_private:
            return None
        ip = _inner_address(address)
        listed = any(ip.version == network.version and ip in network for network in self.networks)
        return None if listed else why_forbidden(address)


def reachable(host: str, port: int, *, guard: AddressGuard) -> list[Endpoint]:
    """Resolves `host` and returns its addresses, all of them allowed.

    Raises socket.gaierror where the name does not resolve and ToolError(client_error) where `guard`
    refuses any address.
    """
    name = normal_host(host)
    try:
        infos = socket.getaddrinfo(name, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except UnicodeError as error:
        message = f"'{name[:100]}' is not the name of a host; check the URL."
        raise ToolError("client_error", message) from error
    found = [Endpoint(family, kind, proto, tuple(address)) for family, kind, proto, _, address in infos]
    for endpoint in found:
        reason = guard.refusal(endpoint.address)
        if reason is not None:
            raise ToolError(
                "client_error",
                f"Host '{host[:100]}' leads to {endpoint.address}, {reason} address; calls from here may "
                "reach public addresses only, and those that the worker's settings allow.",
                type="AddressBlocked",
            )
    return found


def check_host(host: str, guard: AddressGuard) -> None:
    """The same for drivers that connect by themselves: what they resolve later is theirs. Raises
    ToolError."""
    try:
        reachable(host, 0, guard=guard)
    except socket.gaierror as error:
        message = f"The name of host '{host[:100]}' cannot be resolved: {error.strerror}."
        raise ToolError("connection", message, retryable=True, type="NameResolution") from error
