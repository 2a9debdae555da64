"""The codes of values that occur in many records: connections, queues, addresses, words."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import WeakSet

from warren.broker.core.queues.traffic_log import Origin
from warren.broker.plugin import Message, RoutingAddress

from .pipe_format import ADDRESSES, GROUP_ROWS, ORIGINS, QUEUES, WORDS

ENTRY_BYTES = 500  # memory for an entry and its strings, without their characters
# Memory for entries before all codes are assigned anew: with the next group of the writer's rows, and in any case.
KEPT_BYTES, MOST_BYTES = 1 << 20, 16 << 20

Entry = tuple[str | int, ...]
Value = TypeVar("Value")


class Names:
    """The codes in use. `news` are the entries that the writer does not have yet, as (number of the table, entry).

    `hold` reserves room for a number of bytes of news, and returns whether it succeeded. Origins of federation links
    are added to `links`.
    """

    __slots__ = ("news", "_hold", "_links", "_held_bytes", "_origins", "_queues", "_addresses", "_words")

    def __init__(self, hold: Callable[[int], bool], links: WeakSet[Origin]) -> None:
        self.news: list[tuple[int, Entry]] = []
        self._hold = hold
        self._links = links
        self._held_bytes = 0
        self._origins: dict[Origin, int] = {}
        self._queues: dict[tuple[str, str], int] = {}
        self._addresses: dict[bytes, int] = {}
        self._words: dict[str, int] = {"": 0}

    def outgrown(self, rows: int) -> bool:
        """Return whether all codes must be assigned anew, after `rows` records with the present ones."""
        return self._held_bytes > (KEPT_BYTES if rows >= GROUP_ROWS else MOST_BYTES)

    def _add(self, codes: dict[Value, int], value: Value, code: int, table: int, entry: Entry) -> int:
        """Add a value and return its code, or 0 without room for it: then there is no room for its record either."""
        size = ENTRY_BYTES + sum([len(field) for field in entry if isinstance(field, str)])
        if not self._hold(size):
            return 0
        self._held_bytes += size
        codes[value] = code
        self.news.append((table, entry))
        return code

    def renew(self) -> None:
        """Make all entries news, for a new writer."""
        self.news = [(ORIGINS, entry_of(origin)) for origin in self._origins]
        self.news += [(QUEUES, name) for name in self._queues]
        self.news += [(ADDRESSES, decode_address(encoded)) for encoded in self._addresses]
        self.news += [(WORDS, (word,)) for word in self._words if word]

    def origin(self, origin: Origin) -> int:
        """Return the code of a value, adding it if it is new. HOT: the export, for each batch."""
        code = self._origins.get(origin)
        if code is None:
            code = self._add(self._origins, origin, len(self._origins) + 1, ORIGINS, entry_of(origin))
            if origin.link:
                self._links.add(origin)
        return code

    def queue(self, vhost: str, name: str) -> int:
        """Return the code of a value, adding it if it is new. HOT: the export, for each batch."""
        code = self._queues.get((vhost, name))
        if code is None:
            code = self._add(self._queues, (vhost, name), len(self._queues) + 1, QUEUES, (vhost, name))
        return code

    def address(self, address: RoutingAddress) -> int:
        """Return the code of a value, adding it if it is new. HOT: the export, for each batch."""
        code = self._addresses.get(address.encoded)
        if code is None:
            entry = (address.exchange, address.routing_key)
            code = self._add(self._addresses, address.encoded, len(self._addresses) + 1, ADDRESSES, entry)
        return code

    def addresses(self, messages: Sequence[Message]) -> Sequence[int]:
        """Return the code of the address of each message, or no codes if all have the same. HOT: the export, load K."""
        addresses = [message.address for message in messages]
        if addresses.count(addresses[0]) == len(addresses):
            return ()
        codes = self._addresses
        try:
            return [codes[address.encoded] for address in addresses]
        except KeyError:
            return [self.address(address) for address in addresses]

    def word(self, word: str) -> int:
        """Return the code of a consumer tag or a reason; 0 for an empty one."""
        code = self._words.get(word)
        if code is None:
            code = self._add(self._words, word, len(self._words), WORDS, (word,))
        return code


def entry_of(origin: Origin) -> Entry:
    return (origin.connection, origin.channel, origin.vhost, origin.user, origin.upstream, origin.link)


def decode_address(encoded: bytes) -> Entry:
    """Return the exchange and the routing key of two short strings."""
    end = 1 + encoded[0]
    return (encoded[1:end].decode("utf-8", "surrogateescape"), encoded[end + 1 :].decode("utf-8", "surrogateescape"))
