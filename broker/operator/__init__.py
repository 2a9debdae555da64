"""Operation of a node: its unix socket, control, log, imports of definitions, feature flags and default user."""
