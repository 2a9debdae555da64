"""The health check of the image: does the broker answer at the unix socket in its data folder?

It asks what `warrenctl ping` asks, for about half of its processor time, as it runs every few seconds: run it by
`python -I -S`, since it imports the standard library alone.
"""

import http.client
import os
import socket
import sys

TIMEOUT_S = 4.0


class Connection(http.client.HTTPConnection):
    """HTTP over the unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(os.path.join(os.environ["RABBITMQ_MNESIA_DIR"], "ctl.sock"))


def main() -> int:
    """Print the answer or the reason, which `docker inspect` shows, and return the exit status."""
    connection = Connection("localhost")
    try:
        connection.request("GET", "/api/warren/node")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        print(f"the broker does not answer at its unix socket: {reason}")
        return 1
    print(f"HTTP status {status}")
    return status != 200


if __name__ == "__main__":
    sys.exit(main())
