"""The topic exchange: binding keys are patterns of words, kept in a trie.

`*` stands for one word, `#` for any number of them. All places that the words read so far can lead to are followed at
once, so a route takes at most one step for each word and place, however many `#` there are. Two facts keep it short:

- A run of wildcards means the same with its stars first and one `#` last, and is kept so: `#.*.#` becomes `*.#`.
- What is bound to a place after `#` matches as soon as the place is reached, since `#` may swallow all the rest; and
  the place stays reached. So it is entered once, and left out of the walk when nothing follows it.
"""

from collections.abc import Iterator

from ...amqp.field_table import Table
from ..messages.binding import Binding, Destination
from ..messages.message import Message
from .bound_destinations import Destinations
from .exchange_type import Emission, ExchangeType

ONE = "*"
ANY = "#"


class _Place:
    """A place in the trie, and where a literal word, ONE or ANY lead from it."""

    __slots__ = ("any", "bound", "one", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Place] = {}
        self.one: _Place | None = None
        self.any: _Place | None = None
        self.bound = Destinations()

    def after(self, word: str) -> "_Place | None":
        """The place that a word of a pattern leads to."""
        if word == ANY:
            return self.any
        return self.one if word == ONE else self.words.get(word)

    def grow(self, word: str) -> "_Place":
        """As `after`, and made if it is not there."""
        place = self.after(word)
        if place is None:
            place = _Place()
            if word == ANY:
                self.any = place
            elif word == ONE:
                self.one = place
            else:
                self.words[word] = place
        return place

    def prune(self, word: str) -> None:
        """Forget the place that a word of a pattern leads to, if nothing hangs on it."""
        place = self.after(word)
        if place is None or place.words or place.one or place.any or place.bound:
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
        self._root = _Place()

    def on_bind(self, binding: Binding) -> list[Emission]:
        place = self._root
        for word in pattern(binding.routing_key):
            place = place.grow(word)
        place.bound.add(binding.destination)
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
        places = [self._root]
        self._root = _Place()
        while places:
            place = places.pop()
            places += place.words.values()
            places += [next_ for next_ in (place.one, place.any) if next_ is not None]
            place.words.clear()
            place.one = place.any = None
            yield

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        if len(keys) == 1:
            return self._matches(keys[0])
        found: list[Destination] = []
        for key in keys:
            found += self._matches(key)
        return found

    def _matches(self, key: str) -> list[Destination]:  # HOT: load G, a topic key for each message
        """The destinations of all patterns that match."""
        found: list[list[Destination]] = []
        reached = [self._root]
        lasting: list[_Place] = []  # the places after ANY that lead on: reached once, reached for good
        entered: set[_Place] = set()
        for word in words_of(key):
            _enter(reached, lasting, entered, found)
            following = []
            for place in reached + lasting:
                after = place.words.get(word)
                if after is not None:
                    following.append(after)
                if place.one is not None:
                    following.append(place.one)
            reached = following
            if not (reached or lasting):
                break
        _enter(reached, lasting, entered, found)
        for place in reached:
            if place.bound:
                found.append(place.bound.all())
        if len(found) == 1:
            return found[0]
        return [destination for some in found for destination in some]


def _enter(reached: list[_Place], lasting: list[_Place], entered: set[_Place], found: list[list[Destination]]) -> None:
    """Go on through ANY, for no word yet, and take what hangs there: ANY matches whatever words are left."""
    for place in reached:
        after = place.any
        if after is not None and after not in entered:
            entered.add(after)
            if after.bound:
                found.append(after.bound.all())
            if after.words:
                lasting.append(after)


def words_of(key: str) -> list[str]:
    """The words of a key. The empty key has none, not one empty word."""
    return key.split(".") if key else []


def pattern(key: str) -> list[str]:
    """The words of a binding key, each run of wildcards with its stars first and one `#` last."""
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
