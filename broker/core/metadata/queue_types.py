"""The types of queues: the values of `x-queue-type`, and other names that definitions have for them."""

CLASSIC, QUORUM = "classic", "quorum"
QUEUE_TYPES = (CLASSIC, QUORUM)
QUEUE_TYPE_ALIASES = {
    "undefined": "",  # no choice
    "rabbit_classic_queue": CLASSIC,
    "rabbit_quorum_queue": QUORUM,
    "rabbit_stream_queue": "stream",
}
