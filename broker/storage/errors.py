"""The error that keeps a broker from starting with the data in its folder."""


class StorageFault(Exception):
    """The data cannot be used. The text is one line for the operator, with the path in front."""
