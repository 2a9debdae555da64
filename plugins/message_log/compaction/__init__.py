"""The command `warren compact`: merges the small files of an export."""
