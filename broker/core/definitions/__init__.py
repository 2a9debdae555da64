"""Definitions: export, import, and their record in the metadata store."""
