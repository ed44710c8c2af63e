"""Connections of `requests` that reach checked addresses only, and that a deadline can cut."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import get_auth_from_url
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from noetl.tools.kit.http.addresses import Endpoint, Guard, reachable

#: Proxies whose connections are kept.
_PROXIES = 32


class Grip:
    """Holds the socket of an exchange so that its deadline can cut it, whatever it waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        self.is_cut = False

    def take(self, sock: socket.socket) -> None:
        # A duplicate, because TLS detaches the descriptor from the object that it wraps.
        twin = socket.socket(fileno=os.dup(sock.fileno()))
        with self._lock:
            held, self._held = self._held, twin
        if held is not None:
            held.close()
        if self.is_cut:
            self.cut()

    def cut(self) -> None:
        with self._lock:
            self.is_cut = True
            if self._held is not None:
                # Not connected (yet, or any more): there is nothing to cut.
                with contextlib.suppress(OSError):
                    self._held.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None


class _UnderWay(threading.local):
    """The exchange of this thread: urllib3 offers no way to hand it to a connection."""

    grip: Grip | None = None


_under_way = _UnderWay()


@contextlib.contextmanager
def gripped() -> Iterator[Grip]:
    """The sockets that this thread's exchange uses in the block are held by the grip."""
    grip = Grip()
    _under_way.grip = grip
    try:
        yield grip
    finally:
        _under_way.grip = None
        grip.close()


class _Guarded(HTTPConnection):
    """Connects to addresses that were looked at, and to nothing else."""

    def __init__(self, *args: Any, guard: Guard, **kwargs: Any) -> None:
        self._guard = guard
        super().__init__(*args, **kwargs)

    def _new_conn(self) -> socket.socket:
        try:
            endpoints = reachable(self._dns_host, self.port, guard=self._guard)
            return _connect(endpoints, self.timeout, self.socket_options or ())
        except socket.gaierror as error:
            raise urllib3.exceptions.NameResolutionError(self.host, self, error) from error
        except TimeoutError as error:
            raise urllib3.exceptions.ConnectTimeoutError(self, f"{self.host} timed out") from error
        except OSError as error:
            raise urllib3.exceptions.NewConnectionError(self, str(error)) from error

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None and _under_way.grip is not None:
            _under_way.grip.take(self.sock)
        super().request(*args, **kwargs)


class _GuardedTls(_Guarded, HTTPSConnection):
    """The same before TLS: server name and certificate checks keep using the host's name."""


def _connect(
    endpoints: Sequence[Endpoint], timeout: float | None, options: Sequence[tuple[Any, ...]]
) -> socket.socket:
    """The first endpoint that answers. Raises the last OSError."""
    failed: OSError = OSError("the name has no address")
    for endpoint in endpoints:
        if _under_way.grip is not None and _under_way.grip.is_cut:
            break
        sock = socket.socket(endpoint.family, endpoint.type, endpoint.proto)
        try:
            for option in options:
                sock.setsockopt(*option)
            sock.settimeout(timeout)
            sock.connect(endpoint.sockaddr)
        except OSError as error:
            sock.close()
            failed = error
            continue
        if _under_way.grip is not None:
            _under_way.grip.take(sock)
        return sock
    raise failed


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Guarded


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _GuardedTls


class GuardedAdapter(HTTPAdapter):
    """A pool of connections. Raises ToolError where a host leads to an address that is not allowed."""

    def __init__(self, guard: Guard) -> None:
        self._lock = threading.Lock()
        pools = {"http": _PlainPool, "https": _TlsPool}
        # What a pool is given besides, it hands to each of its connections.
        self._pools = cast("Any", {scheme: partial(pool, guard=guard) for scheme, pool in pools.items()})
        super().__init__(pool_connections=32, pool_maxsize=32)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """The pools behind a proxy: they connect to it through the same guard."""
        with self._lock:
            if proxy not in self.proxy_manager and len(self.proxy_manager) >= _PROXIES:
                self.proxy_manager.clear()
            manager = super().proxy_manager_for(proxy, **proxy_kwargs)
            manager.pool_classes_by_scheme = self._pools
            return manager

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        """`Proxy-Authorization` in UTF-8: the driver's own knows latin-1 only."""
        user, password = get_auth_from_url(proxy)
        if not user:
            return {}
        pair = f"{user}:{password}".encode()
        return {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}
