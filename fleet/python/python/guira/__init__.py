"""A client of memcached and Guira that spreads keys over many servers, blocking and for asyncio."""

from ._asyncio import AsyncClient
from ._blocking import Client
from ._guira import VERSION as __version__
from .exceptions import (
    MemcacheBusyError,
    MemcacheClientError,
    MemcacheDamagedError,
    MemcacheDownError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheNoRouteError,
    MemcacheServerError,
    MemcacheTimeoutError,
    MemcacheTooLargeError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
    MemcacheUnreachableError,
)

__all__ = [
    "AsyncClient",
    "Client",
    "MemcacheBusyError",
    "MemcacheClientError",
    "MemcacheDamagedError",
    "MemcacheDownError",
    "MemcacheError",
    "MemcacheIllegalInputError",
    "MemcacheNoRouteError",
    "MemcacheServerError",
    "MemcacheTimeoutError",
    "MemcacheTooLargeError",
    "MemcacheUnexpectedCloseError",
    "MemcacheUnknownCommandError",
    "MemcacheUnknownError",
    "MemcacheUnreachableError",
    "__version__",
]
