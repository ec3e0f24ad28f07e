"""The types of keys, values and arguments."""

from __future__ import annotations

from types import GenericAlias
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Mapping,
    Optional,
    Protocol,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

Key = Union[str, bytes]
Server = Union[str, Tuple[str, int]]
Serializer = Callable[[Any, Any], Tuple[Any, int]]
Deserializer = Callable[[Any, bytes, int], Any]
# A value, its flags, and its unique if the call reads it.
Item = Tuple[bytes, int, Optional[int]]
# A key, a value, flags and the expiry.
Row = Tuple[bytes, bytes, int, int]

K = TypeVar("K", str, bytes)
D = TypeVar("D")
C = TypeVar("C")

# The type of values.
V = TypeVar("V")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    # The type that `get` returns: the type of values, or None. With a serde it is Any.
    M = TypeVarWithDefault("M", default=Optional[bytes])

    class Typed(Generic[M]):
        """The base class of clients, for type checkers."""

else:
    M = TypeVar("M")

    class Typed:
        # `typing.Generic` has no defaults before Python 3.13.
        __class_getitem__ = classmethod(GenericAlias)


class Serde(Protocol):
    """Converts values to bytes and bytes to values. The serdes of pymemcache have these methods."""

    def serialize(self, key: Any, value: Any) -> Tuple[Any, int]: ...

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any: ...


class Options(TypedDict, total=False):
    """The arguments that both clients have and that do not affect the types of results."""

    config: Union[str, Mapping[str, Any], None]
    timeout: float
    ignore_exc: bool
    key_prefix: Key
    allow_unicode_keys: bool
    encoding: str
    udp_gets: bool
    compress_from: Optional[int]
    ca_file: Optional[str]
    verify: bool


class PoolOptions(Options, total=False):
    """The same, and what only the blocking client has."""

    max_pool_size: int
