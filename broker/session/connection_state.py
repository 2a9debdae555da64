"""How far a connection has come."""

HANDSHAKE, RUNNING, CLOSING, CLOSED = range(4)
