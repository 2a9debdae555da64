"""Users, permissions and password hashes."""
