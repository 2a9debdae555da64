"""The topic exchange: binding keys are patterns of words, kept in a trie.

`*` matches one word, `#` any number of words. All nodes that the words read so far can reach are followed at once, so a
route takes at most one step for each word and node, however many `#` there are. Two facts keep it short:

- A run of wildcards is equivalent to its stars followed by one `#`, and is stored so: `#.*.#` becomes `*.#`.
- Destinations bound at a node after `#` match as soon as the node is reached, since `#` matches all remaining words,
  and the node stays reached. So it is entered once, and not followed further if no word leads on from it.
"""

from collections.abc import Iterator

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination, Destinations
from ..messages.message import Message
from .exchange_context import Emission
from .exchange_type import STEP_COST, ExchangeType, add_all

ONE = "*"
ANY = "#"
NODES, NODES_SHIFT = 512, 2  # that are followed in one step; 4 of them cost 1


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

    def release(self) -> Iterator[int]:
        nodes = [self._root]
        self._root = _Node()
        while nodes:
            node = nodes.pop()
            nodes += node.words.values()
            nodes += [next_ for next_ in (node.one, node.any) if next_ is not None]
            node.words.clear()
            node.one = node.any = None
            yield 1

    def search(self, keys: tuple[str, ...], message: Message, found: dict[Destination, None]) -> Iterator[int]:
        matched: dict[_Node, None] = {}  # each once, whatever the number of keys that match
        cost = 0
        for key in keys:
            for steps in self._match(key, matched):
                cost += steps
                if cost >= STEP_COST:
                    yield cost
                    cost = 0
        for node in matched:
            cost = yield from add_all(node.bound.all(), found, cost + 1)
        yield cost

    def _match(self, key: str, matched: dict[_Node, None]) -> Iterator[int]:  # HOT: load K
        """Add the nodes of all patterns that match, in steps; yield their costs."""
        reached = [self._root]
        lasting: list[_Node] = []  # nodes after ANY that lead on: once reached, they stay reached
        entered: set[_Node] = set()
        for word in words_of(key):
            nodes = reached + lasting
            reached = []
            for count, node in enumerate(nodes, 1):  # `nodes` gets those that are entered meanwhile
                after = node.any
                if after is not None and after not in entered:
                    entered.add(after)
                    if after.bound:
                        matched[after] = None
                    if after.words:
                        lasting.append(after)
                        nodes.append(after)
                after = node.words.get(word)
                if after is not None:
                    reached.append(after)
                if node.one is not None:
                    reached.append(node.one)
                if not count % NODES:
                    yield NODES >> NODES_SHIFT
            yield 1 + (len(nodes) % NODES >> NODES_SHIFT)
            if not (reached or lasting):
                break
        for count, node in enumerate(reached, 1):
            if node.any is not None and node.any.bound:
                matched[node.any] = None
            if node.bound:
                matched[node] = None
            if not count % NODES:
                yield NODES >> NODES_SHIFT


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
