"""TLS towards an upstream, from the files that its URI names. They are read at each attempt, as certificates change."""

from __future__ import annotations

import ssl

from ..errors import LinkError
from .endpoint import Endpoint


def context_of(one: Endpoint) -> ssl.SSLContext:
    """Reads files: not for the loop's thread. Raises LinkError, which names the option that cannot be used.

    Without `cacertfile` those that the system trusts are trusted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    option = "cacertfile"
    try:
        if not one.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif one.cacertfile:
            context.load_verify_locations(one.cacertfile)
        else:
            context.load_default_certs()
        if one.server_name == "":
            context.check_hostname = False
        option = "certfile or keyfile"
        if one.certfile:
            # Without a function OpenSSL would ask the terminal for the passphrase of a key that has one.
            context.load_cert_chain(one.certfile, one.keyfile or None, lambda: passphrase(one))
    except (OSError, ValueError) as error:  # of which ssl.SSLError is one; ValueError is for a passphrase too long
        raise LinkError(f"cannot use {option}: {reason_of(error)}") from None
    return context


def passphrase(one: Endpoint) -> str:
    return one.key_password.reveal() if one.key_password is not None else ""


def server_hostname(one: Endpoint) -> str:
    """Whom we expect, for SNI and verification; empty: anybody."""
    return one.host if one.server_name is None else one.server_name


def reason_of(error: Exception) -> str:
    """In a few words, without a path."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
