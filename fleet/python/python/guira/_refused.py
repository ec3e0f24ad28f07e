"""Arguments of pymemcache that do not exist here."""

from __future__ import annotations

from typing import Any, Mapping

_POOL = "the client keeps its connections open and reuses them; max_pool_size limits their number"
_RETRY = "the client marks a failing server as failed, probes it, and uses it again when it answers"
_REPEAT = "the client does not repeat requests; a FailoverRoute in config sends them to another server"

_REASONS: Mapping[str, str] = {
    "connect_timeout": "timeout is the limit for connecting and for replies; config has a connect timeout for each pool",
    "no_delay": "all TCP connections have TCP_NODELAY",
    "socket_module": "the client opens its connections outside Python",
    "socket_keepalive": "timeout detects a lost server",
    "tls_context": "write the server as host:port:ascii:ssl and pass ca_file or verify",
    "default_noreply": "each call waits for the reply of the server and returns its result",
    "servers": "pass the servers as the first argument, server: one server or a list",
    "hasher": "mcrouter's hash chooses the server of a key; config can name another hash",
    "use_pooling": _POOL,
    "pool_idle_timeout": _POOL,
    "lock_generator": "all threads can share the client",
    "max_pool_size": "AsyncClient has one connection to each server",
    "retry_attempts": _RETRY,
    "retry_timeout": _RETRY,
    "dead_timeout": _RETRY,
    "attempts": _REPEAT,
    "retry_delay": _REPEAT,
    "retry_for": _REPEAT,
    "do_not_retry_for": _REPEAT,
}


def refuse(client: str, arguments: Mapping[str, Any]) -> None:
    """Raises TypeError if there are arguments that the client does not have."""
    for name in arguments:
        reason = _REASONS.get(name)
        if reason is None:
            raise TypeError(f"{client}() got an unexpected keyword argument '{name}'")
        raise TypeError(f"{client}() has no argument '{name}': {reason}")
