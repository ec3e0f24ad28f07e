"""The arguments of clients, and forks."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any, Iterable, List, Mapping, Optional, Protocol, Union

from ._guira import Setup
from ._typing import Server

PORT = 11211


class Forks(Protocol):
    """A client that must reopen its connections in the child of a fork."""

    def _after_fork(self) -> None: ...


_clients: weakref.WeakSet[Any] = weakref.WeakSet()


def reset_in_children(client: Forks) -> None:
    _clients.add(client)


def _after_fork() -> None:
    for client in list(_clients):
        client._after_fork()


os.register_at_fork(after_in_child=_after_fork)


def named(server: Server) -> str:
    """Returns the name of a server in a configuration, from the forms that pymemcache accepts."""
    if isinstance(server, tuple) and len(server) == 2:
        host, port = server
        return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
    if not isinstance(server, str):
        raise ValueError(f"a server must be a str or (host, port), not {server!r}")
    if server.startswith("/"):
        return f"unix:{server}"
    return f"{server}:{PORT}" if ":" not in server or server.endswith("]") else server


def all_named(server: Union[Server, Iterable[Server], None]) -> Optional[List[str]]:
    if server is None:
        return None
    is_pair = isinstance(server, tuple) and len(server) == 2 and isinstance(server[1], int)
    if isinstance(server, str) or is_pair or not isinstance(server, Iterable):
        return [named(server)]  # type: ignore[arg-type]
    return [named(one) for one in server]  # type: ignore[arg-type]


def setup(
    servers: Optional[List[str]],
    config: Union[str, Mapping[str, Any], None],
    timeout: float,
    udp_gets: bool,
    compress_from: Optional[int],
    ca_file: Optional[str],
    verify: bool,
) -> Setup:
    if (servers is None) == (config is None):
        raise ValueError("pass either server or config")
    if timeout is None:
        raise TypeError("timeout must be a number of seconds, not None: a client without a timeout does not exist")
    text = config if config is None or isinstance(config, str) else json.dumps(config)
    made = Setup(servers or [], text).timeout(timeout)
    if udp_gets:
        made = made.udp_gets()
    if compress_from is not None:
        made = made.compress_from(compress_from)
    if not verify:
        if ca_file is not None:
            raise ValueError("ca_file has no effect with verify=False: pass one of them")
        made = made.trust_anyone()
    elif ca_file is not None:
        made = made.authority(os.fspath(ca_file))
    return made


def described(client: object, servers: Optional[List[str]], timeout: float) -> str:
    """Returns the text of a client for `repr`. A configuration may be long, so the text leaves it out."""
    target = "config=..." if servers is None else repr(servers)
    return f"{type(client).__qualname__}({target}, timeout={timeout})"
