"""The numbers that the journal knows durable queues by."""


class QueueNumbers:
    """Gives none of them twice."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self) -> int:
        self.next += 1
        return self.next - 1
