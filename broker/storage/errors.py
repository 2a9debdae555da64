"""The errors of stored data that cannot be used."""

import errno


class StorageFault(Exception):
    """The data cannot be used. The text is one line for the operator, with the path in front."""


class Unavailable(StorageFault):
    """The data or its server cannot be read now; nothing is known of the data."""


class Missing(StorageFault):
    """No broker has stored anything there."""


class ConfirmedLost(OSError):
    """The server has fewer transactions, `stored`, than were `confirmed`, as after a failover to a server behind."""

    def __init__(self, stored: int, confirmed: int) -> None:
        super().__init__(errno.EIO, f"the server has {stored} transactions, and {confirmed} were confirmed")
        self.stored = stored
        self.confirmed = confirmed
