"""The topic exchange: binding keys are patterns of words, kept in a trie.

`*` matches one word, `#` any number of words. All nodes that the words read so far can reach are followed at once, so a
route takes at most one step for each word and node, however many `#` there are. Two facts keep it short:

- A run of wildcards is equivalent to its stars followed by one `#`, and is stored so: `#.*.#` becomes `*.#`.
- Destinations bound at a node after `#` match as soon as the node is reached, since `#` matches all remaining words,
  and the node stays reached. So it is entered once, and not followed further if no word leads on from it.
"""

from collections.abc import Iterator

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from .bound_destinations import Destinations
from .exchange_type import Emission, ExchangeType

ONE = "*"
ANY = "#"


class _Node:
    """A node of the trie, and the nodes that a literal word, ONE or ANY lead to from it."""

    __slots__ = ("any", "bound", "one", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.any: _Node | None = None
        self.bound = Destinations()

    def after(self, word: str) -> "_Node | None":
        """Return the node that a word of a pattern leads to, or None."""
        if word == ANY:
            return self.any
        return self.one if word == ONE else self.words.get(word)

    def grow(self, word: str) -> "_Node":
        """Return the node that a word of a pattern leads to, which is created if it does not exist."""
        node = self.after(word)
        if node is None:
            node = _Node()
            if word == ANY:
                self.any = node
            elif word == ONE:
                self.one = node
            else:
                self.words[word] = node
        return node

    def prune(self, word: str) -> None:
        """Remove the node that a word of a pattern leads to, if it has no bindings and leads nowhere."""
        node = self.after(word)
        if node is None or node.words or node.one or node.any or node.bound:
            return
        if word == ANY:
            self.any = None
        elif word == ONE:
            self.one = None
        else:
            del self.words[word]


class TopicExchange(ExchangeType):
    description = "AMQP topic exchange, as per the AMQP specification"

    __slots__ = ("_root",)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        self._root = _Node()

    def on_bind(self, binding: Binding) -> list[Emission]:
        node = self._root
        for word in pattern(binding.routing_key):
            node = node.grow(word)
        node.bound.add(binding.destination)
        return []

    def on_unbind(self, binding: Binding) -> list[Emission]:
        words = pattern(binding.routing_key)
        path = [self._root]
        for word in words:
            path.append(path[-1].grow(word))
        path.pop().bound.remove(binding.destination)
        while path:
            path.pop().prune(words[len(path)])
        return []

    def release(self) -> Iterator[None]:
        nodes = [self._root]
        self._root = _Node()
        while nodes:
            node = nodes.pop()
            nodes += node.words.values()
            nodes += [next_ for next_ in (node.one, node.any) if next_ is not None]
            node.words.clear()
            node.one = node.any = None
            yield

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        if len(keys) == 1:
            return self._matches(keys[0])
        found: list[Destination] = []
        for key in keys:
            found += self._matches(key)
        return found

    def _matches(self, key: str) -> list[Destination]:  # HOT: load G, a topic key for each message
        """Return the destinations of all patterns that match."""
        found: list[list[Destination]] = []
        reached = [self._root]
        lasting: list[_Node] = []  # nodes after ANY that lead on: once reached, they stay reached
        entered: set[_Node] = set()
        for word in words_of(key):
            _enter(reached, lasting, entered, found)
            following = []
            for node in reached + lasting:
                after = node.words.get(word)
                if after is not None:
                    following.append(after)
                if node.one is not None:
                    following.append(node.one)
            reached = following
            if not (reached or lasting):
                break
        _enter(reached, lasting, entered, found)
        for node in reached:
            if node.bound:
                found.append(node.bound.all())
        if len(found) == 1:
            return found[0]
        return [destination for some in found for destination in some]


def _enter(reached: list[_Node], lasting: list[_Node], entered: set[_Node], found: list[list[Destination]]) -> None:
    """Enter the nodes after ANY, which matches any number of words, and collect their destinations."""
    for node in reached:
        after = node.any
        if after is not None and after not in entered:
            entered.add(after)
            if after.bound:
                found.append(after.bound.all())
            if after.words:
                lasting.append(after)


def words_of(key: str) -> list[str]:
    """Return the words of a key; the empty key has none."""
    return key.split(".") if key else []


def pattern(key: str) -> list[str]:
    """Return the words of a binding key, each run of wildcards with its stars first and one `#` last."""
    words: list[str] = []
    any_waits = False
    for word in words_of(key):
        if word == ANY:
            any_waits = True
            continue
        if any_waits and word != ONE:
            words.append(ANY)
            any_waits = False
        words.append(word)
    if any_waits:
        words.append(ANY)
    return words
