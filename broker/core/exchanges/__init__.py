"""Exchanges: types, decorators, routing."""
