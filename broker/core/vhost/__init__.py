"""Virtual hosts: exchanges, queues and bindings under one name."""
