"""The codes of values that occur in many records: connections, queues, addresses, words."""

from __future__ import annotations

from collections.abc import Sequence

from warren.broker.core.queues.message_log import Origin
from warren.broker.plugin import Address, Message

from .pipe_format import ADDRESSES, ORIGINS, QUEUES, WORDS

LIMIT = 65_536  # entries of one table, of some 200 bytes each, before all codes are assigned anew

Entry = tuple[str | int, ...]


class Names:
    """The codes in use. `news` are the entries that the writer does not have yet, as (number of the table, entry)."""

    __slots__ = ("news", "_origins", "_queues", "_addresses", "_words")

    def __init__(self) -> None:
        self.news: list[tuple[int, Entry]] = []
        self._origins: dict[Origin, int] = {}
        self._queues: dict[tuple[str, str], int] = {}
        self._addresses: dict[bytes, int] = {}
        self._words: dict[str, int] = {"": 0}

    @property
    def full(self) -> bool:
        """Whether a table is full, so that all codes have to be assigned anew."""
        tables = (self._origins, self._queues, self._addresses, self._words)
        return any(len(table) > LIMIT for table in tables)

    def renew(self) -> None:
        """Make all entries news, for a writer that has none of them."""
        self.news = [(ORIGINS, entry_of(origin)) for origin in self._origins]
        self.news += [(QUEUES, name) for name in self._queues]
        self.news += [(ADDRESSES, decode_address(encoded)) for encoded in self._addresses]
        self.news += [(WORDS, (word,)) for word in self._words if word]

    def links(self) -> dict[str, str]:
        """Return the upstream queue of each link that forwarded something, by its local connection name."""
        return {origin.connection: origin.link for origin in self._origins if origin.link}

    def origin(self, origin: Origin) -> int:
        """Return the code of a value, adding it if it is new. HOT: the export, for each batch."""
        code = self._origins.get(origin)
        if code is None:
            code = self._origins[origin] = len(self._origins) + 1
            self.news.append((ORIGINS, entry_of(origin)))
        return code

    def queue(self, vhost: str, name: str) -> int:
        """Return the code of a value, adding it if it is new. HOT: the export, for each batch."""
        code = self._queues.get((vhost, name))
        if code is None:
            code = self._queues[vhost, name] = len(self._queues) + 1
            self.news.append((QUEUES, (vhost, name)))
        return code

    def address(self, address: Address) -> int:
        """Return the code of a value, adding it if it is new. HOT: the export, for each batch."""
        code = self._addresses.get(address.encoded)
        if code is None:
            code = self._addresses[address.encoded] = len(self._addresses) + 1
            self.news.append((ADDRESSES, (address.exchange, address.routing_key)))
        return code

    def addresses(self, messages: Sequence[Message]) -> Sequence[int]:
        """Return the code of each one's address, or none if all have the same. HOT: the export, load K."""
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
            code = self._words[word] = len(self._words)
            self.news.append((WORDS, (word,)))
        return code


def entry_of(origin: Origin) -> Entry:
    return (origin.connection, origin.channel, origin.vhost, origin.user, origin.upstream, origin.link)


def decode_address(encoded: bytes) -> Entry:
    """Return the exchange and the routing key of two short strings."""
    end = 1 + encoded[0]
    return (encoded[1:end].decode("utf-8", "surrogateescape"), encoded[end + 1 :].decode("utf-8", "surrogateescape"))
