"""Messages, their state in a queue, bindings, and the ports of the core."""
