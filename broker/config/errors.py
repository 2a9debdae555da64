"""The one error of a configuration."""


class ConfigError(Exception):
    """A configuration that cannot be used. Its text is one line naming where (file and line, variable, option), the key
    and what is wrong."""
