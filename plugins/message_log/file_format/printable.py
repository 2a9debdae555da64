"""Names on a terminal: clients and files choose most of them, and they may have control characters."""


def printable(text: str) -> str:
    """Return a text on one line, with escapes for characters that are not printable."""
    return "".join([letter if letter.isprintable() else repr(letter)[1:-1] for letter in text])
