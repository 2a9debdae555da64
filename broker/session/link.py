"""What a session asks of the connection's transport. `net.transport` implements it; tests have their own."""


class Peer:
    """Who is at the other end of the socket, and which end is ours."""

    __slots__ = ("host", "port", "local_host", "local_port", "loopback")

    def __init__(self, host: str, port: int, local_host: str, local_port: int, loopback: bool) -> None:
        self.host = host
        self.port = port
        self.local_host = local_host
        self.local_port = local_port
        self.loopback = loopback

    def __str__(self) -> str:
        """As RabbitMQ names a connection."""
        return f"{self.host}:{self.port} -> {self.local_host}:{self.local_port}"


class Link:
    """The transport of one connection."""

    def flush_soon(self) -> None:
        """There is output: take it with `Connection.take_output` before this turn of the loop ends."""
        raise NotImplementedError

    def running(self, heartbeat_s: int) -> None:
        """The handshake is over; send heartbeats and watch for them where heartbeat_s is not 0."""
        raise NotImplementedError

    def hold(self) -> None:
        """The connection publishes faster than its queues drain: read no more until `release`, or until they stall."""
        raise NotImplementedError

    def release(self) -> None:
        """The queues have drained."""
        raise NotImplementedError

    def close(self, after_s: float) -> None:
        """Write what there is, then close: at once, or when the peer has, at the latest after that many seconds."""
        raise NotImplementedError

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        """One line for the log."""
        raise NotImplementedError
