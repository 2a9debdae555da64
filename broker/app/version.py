"""The version of the installed distribution."""

from __future__ import annotations


def distribution_version() -> str:
    """Return the version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warrenmq")
    except PackageNotFoundError:
        return "of a source tree that is not installed"
