"""The blocking client."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from . import _codec as codec
from . import _guira
from ._codec import Codec, Key, Serde
from ._setup import Server, setup, tell_of_forks
from .exceptions import MemcacheClientError

K = TypeVar("K", str, bytes)


class Client:
    """Many servers, each of which has some of the keys. For any number of threads.

    ``server`` is one server or several: ``"host:port"``, ``("host", port)``, ``"unix:/path"``, with ``":ascii:ssl"`` behind the port for TLS. Or
    ``config`` is a configuration in mcrouter's language, as a text or as what such a text means.

    Calls have pymemcache's names and arguments. ``noreply`` is there for its sake only: an answer is waited for in any case, and what it says is
    returned or raised.
    """

    def __init__(
        self,
        server: Union[Server, Iterable[Server], None] = None,
        *,
        config: Union[str, Mapping[str, Any], None] = None,
        serde: Optional[Serde] = None,
        serializer: Optional[Callable[[Any, Any], Tuple[Any, int]]] = None,
        deserializer: Optional[Callable[[Any, bytes, int], Any]] = None,
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
    ) -> None:
        """
        Args:
          serde: what makes bytes of values and values of bytes. By default values are bytes, and of others their text is stored.
          timeout: how long a server may take to answer, and to be connected to, in seconds, unless the configuration says something else.
          ignore_exc: gets that fail are misses. What they lead to is stored then, which a server in trouble has no use for.
          key_prefix: what stands before each key.
          allow_unicode_keys: keys that are not ASCII are sent as UTF-8.
          encoding: of values that are not bytes.
          max_pool_size: connections to each server at most. A thread uses one while it waits.
          udp_gets: get, gets, get_many and gets_many go by UDP.
          compress_from: values from this size on are compressed.
          ca_file: whose certificates servers over TLS have to have.
          verify: whether those certificates are looked at.
        """
        self._client: Optional[_guira.Client] = None
        self._setup = setup(server, config, timeout, udp_gets, compress_from, ca_file, verify)
        self._setup = self._setup.connections(max_pool_size)
        self._codec = Codec(
            serde, serializer, deserializer, key_prefix, allow_unicode_keys, encoding, ignore_exc
        )
        self._client = self._setup.client()
        tell_of_forks(self)

    def _after_fork(self) -> None:
        self._client = None

    def _open(self) -> _guira.Client:
        client = self._client
        if client is None:
            client = self._client = self._setup.client()
        return client

    def close(self) -> None:
        """Closes all connections that nobody uses. Another call opens new ones."""
        self._client = None

    quit = close
    disconnect_all = close

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        name = self._codec.key(key)
        try:
            item = self._open().get(name)
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, default)

    def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> Tuple[Any, Any]:
        """The value of a key and what :meth:`cas` wants, or the defaults."""
        name = self._codec.key(key)
        try:
            item = self._open().gets(name)
            return (default, cas_default) if item is None else self._codec.value_and_cas(key, item)
        except Exception as error:
            missing: Tuple[Any, Any] = self._codec.failed_get(error, (default, cas_default))
            return missing

    def gat(self, key: Key, expire: int = 0, default: Any = None) -> Any:
        """The value of a key, which expires at another time from now on."""
        name, expiry = self._codec.key(key), codec.expiry(expire)
        try:
            item = self._open().gat(name, expiry)
            return default if item is None else self._codec.value(key, item)
        except Exception as error:
            return self._codec.failed_get(error, default)

    def get_many(self, keys: Iterable[K]) -> Dict[K, Any]:
        """The values of those keys that have one. All servers are asked at once.

        Raises:
          The error of a key about which no server has said anything. What was found is its ``found``, and the errors of all keys are its ``failed``.
        """
        keys = list(keys)
        items = self._open().get_many([self._codec.key(key) for key in keys])
        return self._codec.values(keys, items, self._codec.value)

    get_multi = get_many

    def gets_many(self, keys: Iterable[K]) -> Dict[K, Tuple[Any, int]]:
        """As :meth:`get_many`, each value with what :meth:`cas` wants."""
        keys = list(keys)
        items = self._open().gets_many([self._codec.key(key) for key in keys])
        return self._codec.values(keys, items, self._codec.value_and_cas)

    def set(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Stores a value, whether or not there is one. ``expire``: seconds up to 30 days, beyond that the UNIX time; never if it is 0."""
        return self._open().set(*self._codec.row(key, value, expire, flags))

    def set_many(
        self,
        values: Mapping[K, Any],
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> List[K]:
        """Stores many values at once. Returns the keys of those that no server has acknowledged."""
        rows = [self._codec.row(key, value, expire, flags) for key, value in values.items()]
        return codec.not_stored(list(values), self._open().set_many(rows))

    set_multi = set_many

    def add(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Stores a value if there is none. False if there is one."""
        return self._open().add(*self._codec.row(key, value, expire, flags))

    def replace(
        self,
        key: Key,
        value: Any,
        expire: int = 0,
        noreply: Optional[bool] = None,
        flags: Optional[int] = None,
    ) -> bool:
        """Stores a value if there is one already. False if there is none."""
        return self._open().replace(*self._codec.row(key, value, expire, flags))

    def cas(
        self,
        key: Key,
        value: Any,
        cas: Union[int, str, bytes],
        expire: int = 0,
        noreply: Optional[bool] = False,
        flags: Optional[int] = None,
    ) -> Optional[bool]:
        """Stores a value in place of the one that :meth:`gets` has told of. False if that has changed since, and None if there is none any more."""
        return self._open().cas(*self._codec.row(key, value, expire, flags), codec.unique(cas))

    def append(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """Puts more behind a value. False if there is none."""
        return self._open().append(self._codec.key(key), self._codec.more(key, value))

    def prepend(self, key: Key, value: Any, noreply: Optional[bool] = None) -> bool:
        """Puts more before a value. False if there is none."""
        return self._open().prepend(self._codec.key(key), self._codec.more(key, value))

    def touch(self, key: Key, expire: int = 0, noreply: Optional[bool] = None) -> bool:
        """Has a value expire at another time. False if there is none."""
        return self._open().touch(self._codec.key(key), codec.expiry(expire))

    def delete(self, key: Key, noreply: Optional[bool] = None) -> bool:
        """Deletes a value. False if there is none."""
        return self._open().delete(self._codec.key(key))

    def delete_many(self, keys: Iterable[Key], noreply: Optional[bool] = None) -> bool:
        """Deletes many values at once, if they are there.

        Raises:
          The error of a key whose delete no server has acknowledged. The errors of all such keys are its ``failed``.
        """
        keys = list(keys)
        return codec.all_deleted(keys, self._open().delete_many([self._codec.key(key) for key in keys]))

    delete_multi = delete_many

    def incr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """Adds to a number. Returns the sum, or None if there is none."""
        return self._open().incr(self._codec.key(key), codec.amount(value))

    def decr(self, key: Key, value: int, noreply: Optional[bool] = False) -> Optional[int]:
        """Subtracts from a number, down to 0. Returns the difference, or None if there is none."""
        return self._open().decr(self._codec.key(key), codec.amount(value))

    def flush_all(self, delay: int = 0, noreply: Optional[bool] = None) -> bool:
        """Has all servers drop all values."""
        codec.no_delay(delay)
        self._open().flush_all()
        return True

    def version(self) -> bytes:
        """The version of the server, if there is only one."""
        versions = list(self.versions().values())
        if len(versions) != 1:
            raise MemcacheClientError("there are several servers: ask for their versions")
        return versions[0].encode()

    def versions(self) -> Dict[str, str]:
        """The version of each server."""
        return codec.of_servers(self._open().versions())

    def stats(self, *args: str) -> Dict[str, Dict[str, str]]:
        """What each server says of itself."""
        said = codec.of_servers(self._open().stats(" ".join(args)))
        return {server: dict(stats) for server, stats in said.items()}

    def counters(self) -> Dict[str, int]:
        """What this client has done since it was made or closed."""
        return dict(self._open().counters())

    def __getitem__(self, key: Key) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Key) -> None:
        self.delete(key)
