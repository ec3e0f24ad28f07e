"""The errors of this package. Classes that pymemcache also has mean the same here."""

from __future__ import annotations

from typing import Any, Dict, Optional

# A longer key is cut in texts.
_KEY_MAX = 300


class MemcacheError(Exception):
    """The base class of the errors of this package.

    The text names the call, the key, the server and the cause, as far as they are known.
    """

    #: The name of the method, such as ``"get"``.
    call: Optional[str]
    #: The key as the caller passed it. None if the call has no key.
    key: Any
    #: The server that failed, as the configuration writes it. None if it is unknown or the client sent nothing.
    server: Optional[str]
    #: After a call with many keys: the results of the keys that were found.
    found: Dict[Any, Any]
    #: After a call with many keys: the errors of the keys that failed. After ``versions`` and ``stats``, of the servers.
    failed: Dict[Any, Exception]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.call = None
        self.key = None
        self.server = None
        self.found = {}
        self.failed = {}

    def __str__(self) -> str:
        text = super().__str__()
        if self.call is not None:
            of_key = "" if self.key is None else f" of key {_shown(self.key)}"
            text = f"{self.call}{of_key} failed: {text}"
        more = len(self.failed) - 1
        if more > 0:
            thing = "server" if self.key is None else "key"
            text += f" (and {more} more {thing}{'s' if more > 1 else ''} failed)"
        return text

    def _of(self, call: str, key: Any = None) -> MemcacheError:
        """Sets the call and the key. Returns the error."""
        self.call = call
        if key is not None:
            self.key = key
        return self


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= _KEY_MAX else f"{text[:_KEY_MAX]}..."


class MemcacheClientError(MemcacheError):
    """The server refused the request as invalid."""


class MemcacheUnknownCommandError(MemcacheClientError):
    """The server does not know the command."""


class MemcacheIllegalInputError(MemcacheClientError):
    """The key, the value or an argument is invalid. The client sent nothing."""


class MemcacheServerError(MemcacheError):
    """The server failed, or did not reply."""


class MemcacheUnknownError(MemcacheError):
    """An error of any other kind."""


class MemcacheUnexpectedCloseError(MemcacheServerError):
    """The connection broke, or the client was closed. The server may have executed a change."""


class MemcacheTooLargeError(MemcacheServerError):
    """The value is too large for the server, or for the client (64 MiB)."""


class MemcacheTimeoutError(MemcacheServerError, TimeoutError):
    """The server did not reply in time. The server may have executed a change."""


class MemcacheUnreachableError(MemcacheServerError, ConnectionError):
    """The client cannot connect to the server."""


class MemcacheDownError(MemcacheUnreachableError):
    """The server is marked as failed. The client sends it no requests until the server answers a probe."""


class MemcacheBusyError(MemcacheServerError):
    """The client or the server has too many requests in progress."""


class MemcacheNoRouteError(MemcacheError):
    """The configuration has no route for the key."""


class MemcacheDamagedError(MemcacheError):
    """The value has the flag of compressed values, but cannot be decompressed."""
