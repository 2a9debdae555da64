"""The types of queues: the values of `x-queue-type`."""

CLASSIC, QUORUM = "classic", "quorum"
