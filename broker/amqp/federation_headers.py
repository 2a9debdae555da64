"""Names of the header and of the binding argument in which federation records the brokers on the way."""

RECEIVED_FROM = "x-received-from"  # of messages
BOUND_FROM = "x-bound-from"  # of bindings that federation links make; messages never have it
