"""Why a call has failed. Names that pymemcache has too mean the same."""

from __future__ import annotations

from typing import Any, Dict


class MemcacheError(Exception):
    """Any of the following. Calls with many keys say in ``found`` and ``failed`` what came of each."""

    #: What was found all the same, by key.
    found: Dict[Any, Any]
    #: What became of the other keys (or servers), by key.
    failed: Dict[Any, Exception]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.found = {}
        self.failed = {}


class MemcacheClientError(MemcacheError):
    """The server has refused the request as wrong."""


class MemcacheUnknownCommandError(MemcacheClientError):
    """The server does not know the command."""


class MemcacheIllegalInputError(MemcacheClientError):
    """The key or the value is not one that can be sent. Nothing was sent."""


class MemcacheServerError(MemcacheError):
    """The server has failed, or has not answered."""


class MemcacheUnknownError(MemcacheError):
    """The answer makes no sense."""


class MemcacheUnexpectedCloseError(MemcacheServerError):
    """The connection broke. A change may have been carried out."""


class MemcacheTooLargeError(MemcacheServerError):
    """The value is longer than the server takes."""


class MemcacheTimeoutError(MemcacheServerError, TimeoutError):
    """No answer came in time. A change may have been carried out."""


class MemcacheUnreachableError(MemcacheServerError, ConnectionError):
    """The server cannot be connected to."""


class MemcacheDownError(MemcacheUnreachableError):
    """The server has failed several times in a row, and is not asked until it was seen to be back."""


class MemcacheBusyError(MemcacheServerError):
    """Too much is under way: of the client, or of the server."""


class MemcacheNoRouteError(MemcacheError):
    """The configuration sends the key nowhere."""


class MemcacheDamagedError(MemcacheError):
    """The value says that it is compressed, and is not."""
