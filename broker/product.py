"""The product: its name, and the version of the installed distribution."""

from functools import cache

PRODUCT = "Warren"
DISTRIBUTION = "warrenmq"
NOT_INSTALLED = "of a source tree that is not installed"


@cache
def distribution_version(default: str = NOT_INSTALLED) -> str:
    """Return the version of the installed distribution, or the default."""
    from importlib.metadata import PackageNotFoundError, version  # imported late: most commands need no version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return default


def product_version() -> str:
    """Return the version that the product has for clients, unless the configuration names another one."""
    return distribution_version("0.0.0")
