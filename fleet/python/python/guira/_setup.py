"""What a client is made with, and what a fork does to it."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any, Iterable, List, Mapping, Optional, Protocol, Tuple, Union

from ._guira import Setup

Server = Union[str, Tuple[str, int]]

PORT = 11211


class Forks(Protocol):
    """What has to be made anew in the child of a fork."""

    def _after_fork(self) -> None: ...


_clients: weakref.WeakSet[Any] = weakref.WeakSet()


def tell_of_forks(client: Forks) -> None:
    _clients.add(client)


def _after_fork() -> None:
    for client in list(_clients):
        client._after_fork()


os.register_at_fork(after_in_child=_after_fork)


def named(server: Server) -> str:
    """A server as a configuration names it, from the ways that pymemcache knows."""
    if isinstance(server, tuple) and len(server) == 2:
        host, port = server
        return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
    if not isinstance(server, str):
        raise ValueError(f"a server is a text or (host, port), not {server!r}")
    if server.startswith("/"):
        return f"unix:{server}"
    return f"{server}:{PORT}" if ":" not in server or server.endswith("]") else server


def all_named(server: Union[Server, Iterable[Server]]) -> List[str]:
    is_pair = isinstance(server, tuple) and len(server) == 2 and isinstance(server[1], int)
    if isinstance(server, str) or is_pair or not isinstance(server, Iterable):
        return [named(server)]  # type: ignore[arg-type]
    return [named(one) for one in server]  # type: ignore[arg-type]


def setup(
    server: Union[Server, Iterable[Server], None],
    config: Union[str, Mapping[str, Any], None],
    timeout: float,
    udp_gets: bool,
    compress_from: Optional[int],
    ca_file: Optional[str],
    verify: bool,
) -> Setup:
    if (server is None) == (config is None):
        raise ValueError("say either which servers there are or what the configuration is")
    text = config if config is None or isinstance(config, str) else json.dumps(config)
    made = Setup(all_named(server) if server is not None else [], text).timeout(timeout)
    if udp_gets:
        made = made.udp_gets()
    if compress_from is not None:
        made = made.compress_from(compress_from)
    if not verify:
        if ca_file is not None:
            raise ValueError("certificates are verified with ca_file, or not at all")
        made = made.trust_anyone()
    elif ca_file is not None:
        made = made.authority(os.fspath(ca_file))
    return made
