"""Text for people: names, of which clients and files choose most, and numbers."""

# The forms of verbs after one thing and after several.
IS, WAS, HAS, WAITS = ("is", "are"), ("was", "were"), ("has", "have"), ("waits", "wait")


def printable(text: str) -> str:
    """Return a text on one line, with escapes for characters that are not printable."""
    return "".join([letter if letter.isprintable() else repr(letter)[1:-1] for letter in text])


def count(number: int, noun: str, verb: tuple[str, str] | None = None) -> str:
    """Return a number of things, with a verb if its two forms are given: `1 message waits`, `2 messages wait`."""
    text = f"{number:,} {noun}{'' if number == 1 else 's'}"
    return f"{text} {verb[number != 1]}" if verb is not None else text
