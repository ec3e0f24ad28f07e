"""Keys and values as Python has them, and as servers have them."""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Dict,
    Hashable,
    Iterable,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from .exceptions import MemcacheError, MemcacheIllegalInputError

Key = Union[str, bytes]
# A value, its flags, and its unique if that was asked for.
Item = Tuple[bytes, int, Optional[int]]
# A key, a value, flags and when it expires.
Row = Tuple[bytes, bytes, int, int]
K = TypeVar("K", bound=Hashable)


class Serde(Protocol):
    """What makes bytes of values, and values of bytes: as pymemcache has it, whose objects can be used."""

    def serialize(self, key: Any, value: Any) -> Tuple[Any, int]: ...

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any: ...


class PlainSerde:
    """Bytes, and the text of everything else. Or two functions."""

    def __init__(
        self,
        serializer: Optional[Callable[[Any, Any], Tuple[Any, int]]] = None,
        deserializer: Optional[Callable[[Any, bytes, int], Any]] = None,
    ) -> None:
        self._serializer = serializer
        self._deserializer = deserializer

    def serialize(self, key: Any, value: Any) -> Tuple[Any, int]:
        return (value, 0) if self._serializer is None else self._serializer(key, value)

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        return value if self._deserializer is None else self._deserializer(key, value, flags)


def number(value: Any, name: str, least: int, most: int) -> int:
    if not isinstance(value, int):
        raise MemcacheIllegalInputError(f"{name} has to be an integer, not {value!r}")
    if not least <= value <= most:
        raise MemcacheIllegalInputError(f"{name} has to be from {least} to {most}, not {value}")
    return value


def expiry(expire: Any) -> int:
    return number(expire, "expire", -(2**31), 2**31 - 1)


def amount(value: Any) -> int:
    return number(value, "value", 0, 2**64 - 1)


def unique(cas: Any) -> int:
    digits = cas.decode("latin-1") if isinstance(cas, bytes) else cas
    if isinstance(digits, str):
        if not (digits.isascii() and digits.isdigit()):
            raise MemcacheIllegalInputError(f"cas has to have digits only, not {cas!r}")
        digits = int(digits)
    return number(digits, "cas", 0, 2**64 - 1)


class Codec:
    def __init__(
        self,
        serde: Optional[Serde],
        serializer: Optional[Callable[[Any, Any], Tuple[Any, int]]],
        deserializer: Optional[Callable[[Any, bytes, int], Any]],
        key_prefix: Key,
        allow_unicode_keys: bool,
        encoding: str,
        ignore_exc: bool,
    ) -> None:
        if serde is not None and (serializer is not None or deserializer is not None):
            raise ValueError("serde takes the place of serializer and deserializer")
        self._serde: Serde = serde or PlainSerde(serializer, deserializer)
        self._key_encoding = "utf-8" if allow_unicode_keys else "ascii"
        self._encoding = encoding
        self._ignore_exc = ignore_exc
        self._prefix = b""
        self._prefix = self.key(key_prefix)

    def key(self, key: Key) -> bytes:
        if isinstance(key, str):
            try:
                key = key.encode(self._key_encoding)
            except UnicodeEncodeError:
                raise MemcacheIllegalInputError(f"the key is not {self._key_encoding}: {key!r}") from None
        elif not isinstance(key, bytes):
            raise MemcacheIllegalInputError(f"a key is str or bytes, not {key!r}")
        return self._prefix + key

    def more(self, key: Key, value: Any) -> bytes:
        """What is put before or behind a value."""
        return self._packed(key, value)[0]

    def row(self, key: Key, value: Any, expire: int, flags: Optional[int]) -> Row:
        packed, own_flags = self._packed(key, value)
        flags = number(own_flags if flags is None else flags, "flags", 0, 2**32 - 1)
        return self.key(key), packed, flags, expiry(expire)

    def _packed(self, key: Key, value: Any) -> Tuple[bytes, int]:
        packed, flags = self._serde.serialize(key, value)
        if isinstance(packed, (bytearray, memoryview)):
            packed = bytes(packed)
        elif not isinstance(packed, bytes):
            try:
                packed = str(packed).encode(self._encoding)
            except UnicodeEncodeError as error:
                raise MemcacheIllegalInputError(f"the value is not {self._encoding}: {error}") from None
        return packed, flags

    def value(self, key: Key, item: Item) -> Any:
        return self._serde.deserialize(key, item[0], item[1])

    def value_and_cas(self, key: Key, item: Item) -> Tuple[Any, Optional[int]]:
        return self.value(key, item), item[2]

    def failed_get(self, error: Exception, default: Any) -> Any:
        """The default, if failures are misses."""
        if self._ignore_exc and not isinstance(error, MemcacheIllegalInputError):
            return default
        raise error

    def values(
        self,
        keys: Sequence[K],
        items: Iterable[Union[Item, Exception, None]],
        value: Callable[[Any, Item], Any],
    ) -> Dict[K, Any]:
        """What was found of many keys."""
        found: Dict[K, Any] = {}
        failed: Dict[K, Exception] = {}
        for key, item in zip(keys, items):
            if isinstance(item, Exception):
                failed[key] = item
            elif item is not None:
                try:
                    found[key] = value(key, item)
                except Exception as error:
                    failed[key] = error
        if failed:
            worst = _worst(failed)
            if not self._ignore_exc or isinstance(worst, MemcacheIllegalInputError):
                raise told(worst, found, failed)
        return found


def _worst(failed: Mapping[Any, Exception]) -> Exception:
    """The error to raise for many: what the caller has done wrong before what has happened to servers."""
    errors = list(failed.values())
    return next((error for error in errors if isinstance(error, MemcacheIllegalInputError)), errors[0])


def told(error: Exception, found: Dict[Any, Any], failed: Dict[Any, Exception]) -> Exception:
    if isinstance(error, MemcacheError):
        error.found, error.failed = found, failed
    return error


def not_stored(keys: Sequence[K], results: Iterable[Union[bool, Exception]]) -> List[K]:
    """The keys of values that no server has taken."""
    failed: Dict[K, Exception] = {}
    missing = []
    for key, result in zip(keys, results):
        if isinstance(result, Exception):
            failed[key] = result
        if result is not True:
            missing.append(key)
    if failed and isinstance(_worst(failed), MemcacheIllegalInputError):
        raise told(_worst(failed), {}, failed)
    return missing


def all_deleted(keys: Sequence[Any], results: Iterable[Union[bool, Exception]]) -> bool:
    failed = {key: result for key, result in zip(keys, results) if isinstance(result, Exception)}
    if failed:
        raise told(_worst(failed), {}, failed)
    return True


def of_servers(answers: Mapping[str, Any]) -> Dict[str, Any]:
    """What servers say of themselves, if all have answered."""
    failed = {server: answer for server, answer in answers.items() if isinstance(answer, Exception)}
    said = {server: answer for server, answer in answers.items() if server not in failed}
    if failed:
        raise told(_worst(failed), said, failed)
    return said


def no_delay(delay: int) -> None:
    if delay != 0:
        raise NotImplementedError("flush_all has no delay here")
