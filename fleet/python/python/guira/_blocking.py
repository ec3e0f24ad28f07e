"""The blocking client."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Tuple, Type, Union, overload

from . import _codec as codec
from . import _guira
from ._codec import Codec
from ._refused import refuse
from ._setup import all_named, described, reset_in_children, setup
from ._typing import C, D, Deserializer, K, Key, M, PoolOptions, Serde, Serializer, Server, Typed, V
from .exceptions import MemcacheError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Client(Typed[M]):
    """A client that spreads keys over many servers. All threads can share it.

    ``server`` is one server or several: ``"host:port"``, ``("host", port)``, ``"unix:/path"``, with ``":ascii:ssl"`` after the port for TLS.
    ``config`` replaces it: a configuration in mcrouter's language, as text or as a dict.

    Methods have the names and arguments of pymemcache. They accept ``noreply``, but always wait for the reply of the server, and return or raise it.
    """

    @overload
    def __init__(
        self: Client[Optional[bytes]],
        server: Union[Server, Iterable[Server], None] = None,
        *,
        serde: None = None,
        serializer: Optional[Serializer] = None,
        deserializer: None = None,
        **options: Unpack[PoolOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Client[Any],
        server: Union[Server, Iterable[Server], None] = None,
        *,
        serde: Optional[Serde] = None,
        serializer: Optional[Serializer] = None,
        deserializer: Optional[Deserializer] = None,
        **options: Unpack[PoolOptions],
    ) -> None: ...

    def __init__(
        self,
        server: Union[Server, Iterable[Server], None] = None,
        *,
        config: Union[str, Mapping[str, Any], None] = None,
        serde: Optional[Serde] = None,
        serializer: Optional[Serializer] = None,
        deserializer: Optional[Deserializer] = None,
        timeout: float = 1.0,
        ignore_exc: bool = False,
        key_prefix: Key = b"",
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        max_pool_size: int = 16,
        udp_gets: bool = False,
        compress_from: Optional[int] = None,
        ca_file: Optional[str] = None,
        verify: bool = True,
        **refused: Any,
    ) -> None:
        """
        Args:
          serde: converts values to bytes and back. Without it values are bytes, and the client stores other values as their text.
          timeout: the time limit for a reply and for connecting, in seconds. The configuration can have other limits.
          ignore_exc: failed gets count as misses. The application then stores values that a failing server cannot take.
          key_prefix: the client prepends it to each key and removes it from results.
          allow_unicode_keys: the client sends keys that are not ASCII as UTF-8.
          encoding: the encoding of values of type str.
          max_pool_size: the maximum number of connections to each server. Each thread uses one while it waits.
          udp_gets: get, gets, get_many and gets_many use UDP.
          compress_from: the client compresses values of at least this number of bytes.
          ca_file: a file of the authorities (PEM) for the certificates of TLS servers.
          verify: False accepts any certificate.
        """
        refuse(type(self).__name__, refused)
        self._client: Optional[_guira.Client] = None
        self._servers, self._timeout = all_named(server), timeout
        self._setup = setup(self._servers, config, timeout, udp_gets, compress_from, ca_file, verify)
        self._setup = self._setup.connections(max_pool_size)
        self._codec = Codec(
            serde, serializer, deserializer, key_prefix, allow_unicode_keys, encoding, ignore_exc
        )
        self._client = self._setup.client()
        reset_in_children(self)

    def __repr__(self) -> str:
        return described(self, self._servers, self._timeout)

    def _after_fork(self) -> None:
        self._client = None

    def _open(self) -> _guira.Client:
        client = self._client
        if client is None:
            client = self._client = self._setup.client()
        return client

    def close(self) -> None:
        """Closes the connections; calls of other threads end first. The next call opens new connections."""
        self._client = None

    quit = close
    disconnect_all = close

    def __enter__(self) -> Client[M]:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @overload
    def get(self, key: Key, default: None = None) -> M: ...

    @overload
    def get(self: Client[Optional[V]], key: Key, default: D) -> Union[V, D]: ...

    def get(self, key: Key, default: Any = None) -> Any:
        """Returns the value of a key, or the default."""
        try:
            item = self._open().get(self._codec.key(key))
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, "get", key, default)

    @overload
    def gets(self, key: Key, default: None = None, cas_default: None = None) -> Tuple[M, Optional[int]]: ...

    @overload
    def gets(self: Client[Optional[V]], key: Key, default: D, cas_default: None = None) -> Tuple[Union[V, D], Optional[int]]: ...

    @overload
    def gets(self: Client[Optional[V]], key: Key, default: D, cas_default: C) -> Tuple[Union[V, D], Union[int, C]]: ...

    @overload
    def gets(self, key: Key, *, cas_default: C) -> Tuple[M, Union[int, C]]: ...

    def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> Any:
        """Returns the value of a key and its number for :meth:`cas`, or the defaults."""
        try:
            item = self._open().gets(self._codec.key(key))
            return (default, cas_default) if item is None else self._codec.value_and_cas(key, item)
        except Exception as error:
            return self._codec.failed_get(error, "gets", key, (default, cas_default))

    @overload
    def gat(self, key: Key, expire: int = 0, default: None = None) -> M: ...

    @overload
    def gat(self: Client[Optional[V]], key: Key, expire: int, default: D) -> Union[V, D]: ...

    @overload
    def gat(self: Client[Optional[V]], key: Key, expire: int = 0, *, default: D) -> Union[V, D]: ...

    def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """Returns the value of a key, or the default, and changes the expiry of the value."""
        try:
            item = self._open().gat(self._codec.key(key), codec.expiry(expire))
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, "gat", key, default)

    def get_many(self: Client[Optional[V]], keys: Iterable[K]) -> Dict[K, V]:
        """Returns the values of the keys that have one. The client asks all servers at once.

        Raises:
          The error of a key for which no server replied. Its ``found`` has the values that were found, its ``failed`` the errors of all keys.
        """
        keys = list(keys)
        names = self._codec.keys("get_many", keys)
        items = self._open().get_many(names)
        return self._codec.values("get_many", keys, items, self._codec.value)

    get_multi = get_many

    def gets_many(self: Client[Optional[V]], keys: Iterable[K]) -> Dict[K, Tuple[V, int]]:
        """Returns the values of many keys as :meth:`get_many` does, each with its number for :meth:`cas`."""
        keys = list(keys)
        names = self._codec.keys("gets_many", keys)
        items = self._open().gets_many(names)
        return self._codec.values("gets_many", keys, items, self._codec.value_and_cas)

    def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Stores a value, whether or not the key has one.

        ``expire`` is in seconds, up to 30 days. A larger number is a UNIX time. With 0 the value does not expire.
        """
        row = self._codec.row("set", key, value, expire, flags)
        try:
            return self._open().set(*row)
        except MemcacheError as error:
            raise codec.stored(error, "set", row, key)

    def set_many(
        self,
        values: Mapping[K, Any],
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> List[K]:
        """Stores many values at once. Returns the keys of the values that no server has acknowledged."""
        rows = [self._codec.row("set_many", key, value, expire, flags) for key, value in values.items()]
        keys = list(values)
        return codec.not_stored("set_many", keys, self._open().set_many(rows))

    set_multi = set_many

    def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Stores a value if the key has none. Returns False if the key has one."""
        row = self._codec.row("add", key, value, expire, flags)
        try:
            return self._open().add(*row)
        except MemcacheError as error:
            raise codec.stored(error, "add", row, key)

    def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Stores a value if the key has one. Returns False if the key has none."""
        row = self._codec.row("replace", key, value, expire, flags)
        try:
            return self._open().replace(*row)
        except MemcacheError as error:
            raise codec.stored(error, "replace", row, key)

    def cas(
        self,
        key: Key,
        value: Any,
        cas: Union[int, str, bytes],
        expire: int = 0,
        noreply: Optional[bool] = False,
        flags: Optional[int] = None,
    ) -> Optional[bool]:
        """Stores a value if the key still has the value that :meth:`gets` returned with the number ``cas``.

        Returns False if the key has another value, and None if the key has none.
        """
        row = self._codec.row("cas", key, value, expire, flags)
        try:
            return self._open().cas(*row, codec.unique(cas))
        except MemcacheError as error:
            raise codec.stored(error, "cas", row, key)

    def append(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """Appends to the value of a key. Returns False if the key has none."""
        try:
            return self._open().append(self._codec.key(key), self._codec.more(key, value))
        except MemcacheError as error:
            raise error._of("append", key)

    def prepend(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """Prepends to the value of a key. Returns False if the key has none."""
        try:
            return self._open().prepend(self._codec.key(key), self._codec.more(key, value))
        except MemcacheError as error:
            raise error._of("prepend", key)

    def touch(self, key: Key, expire: int = 0, noreply: Optional[bool] = None) -> bool:
        """Changes the expiry of a value. Returns False if the key has none."""
        try:
            return self._open().touch(self._codec.key(key), codec.expiry(expire))
        except MemcacheError as error:
            raise error._of("touch", key)

    def delete(self, key: Key, noreply: Optional[bool] = None) -> bool:
        """Deletes a value. Returns False if the key has none."""
        try:
            return self._open().delete(self._codec.key(key))
        except MemcacheError as error:
            raise error._of("delete", key)

    def delete_many(self, keys: Iterable[Key], noreply: Optional[bool] = None) -> bool:
        """Deletes the values of many keys at once.

        Raises:
          The error of a key whose deletion no server has acknowledged. Its ``failed`` has the errors of all such keys.
        """
        keys = list(keys)
        names = self._codec.keys("delete_many", keys)
        return codec.all_deleted("delete_many", keys, self._open().delete_many(names))

    delete_multi = delete_many

    def incr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """Adds to a number. Returns the sum, or None if the key has no value."""
        try:
            return self._open().incr(self._codec.key(key), codec.amount(value))
        except MemcacheError as error:
            raise error._of("incr", key)

    def decr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """Subtracts from a number, down to 0. Returns the difference, or None if the key has no value."""
        try:
            return self._open().decr(self._codec.key(key), codec.amount(value))
        except MemcacheError as error:
            raise error._of("decr", key)

    def flush_all(self, delay: int = 0, noreply: Optional[bool] = None) -> bool:
        """Removes all values from all servers."""
        codec.no_delay(delay)
        try:
            self._open().flush_all()
            return True
        except MemcacheError as error:
            raise error._of("flush_all")

    def version(self) -> bytes:
        """Returns the version of the server. Raises an error if there are several servers."""
        return codec.only_version(self.versions())

    def versions(self) -> Dict[str, str]:
        """Returns the version of each server."""
        return codec.of_servers("versions", self._open().versions())

    def stats(self, *args: str) -> Dict[str, Dict[str, str]]:
        """Returns the statistics of each server."""
        replies = codec.of_servers("stats", self._open().stats(" ".join(args)))
        return {server: dict(stats) for server, stats in replies.items()}

    def counters(self) -> Dict[str, int]:
        """Returns the counters of the client, from its creation or its last close on."""
        return dict(self._open().counters())

    def __getitem__(self: Client[Optional[V]], key: Key) -> V:
        value: Any = self.get(key)
        if value is None:
            raise KeyError(key)
        found: V = value
        return found

    def __setitem__(self, key: Key, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Key) -> None:
        self.delete(key)
