"""Names of queues and exchanges as clients send them."""


def strip_line_ends(name: str) -> str:
    """Remove CR and LF, which RabbitMQ strips from names of queues and exchanges that are declared or bound."""
    return name.replace("\r", "").replace("\n", "")
