"""The plugin host: what services and exchange types from outside get of the broker."""
