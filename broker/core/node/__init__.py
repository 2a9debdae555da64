"""The node: all virtual hosts, users and connections of one broker."""
