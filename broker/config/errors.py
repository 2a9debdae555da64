"""The error of a configuration."""


class ConfigError(Exception):
    """A configuration that cannot be used. Its text is one line: the place (file and line, variable or option), the key
    and the fault."""
