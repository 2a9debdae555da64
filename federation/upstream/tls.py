"""TLS contexts for upstreams, from the files that URIs name. Each attempt reads them again: certificates change."""

import ssl

from warren.broker.system_errors import check_regular, network_error

from .endpoint import Endpoint
from .errors import LinkError

# Verification codes of OpenSSL -> what to do
HINTS = {
    (18, 19, 20, 21): " (cacertfile= in the URI names the file with the upstream's authority)",
    (62, 64): " (server_name_indication= in the URI is the name in the upstream's certificate)",
}
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


def make_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Make the TLS context of an endpoint; without `cacertfile` the system's certificates are trusted.

    It reads files, so the loop's thread must not call it. Raises LinkError with the name of the unusable option.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    option = "cacertfile"
    try:
        if not endpoint.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif endpoint.cacertfile:
            check_regular(endpoint.cacertfile)
            context.load_verify_locations(endpoint.cacertfile)
        else:
            context.load_default_certs()
        if endpoint.server_name == "":
            context.check_hostname = False
        option = "certfile or keyfile"
        if endpoint.certfile:
            for name in filter(None, (endpoint.certfile, endpoint.keyfile)):
                check_regular(name)
            passphrase = endpoint.key_password.reveal() if endpoint.key_password is not None else ""
            # Without a function OpenSSL would ask for the passphrase of an encrypted key at the terminal.
            context.load_cert_chain(endpoint.certfile, endpoint.keyfile or None, lambda: passphrase)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; ValueError: the passphrase is too long
        raise LinkError(f"cannot use {option}: {describe_error(error)}") from None
    return context


def expected_name(endpoint: Endpoint) -> str:
    """Return the server's name for SNI and verification; empty if any is accepted."""
    return endpoint.host if endpoint.server_name is None else endpoint.server_name


def describe_error(error: Exception) -> str:
    """Describe an error of the system or of TLS in a few words, without paths."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"certificate verify failed: {error.verify_message}"
        return text + next((hint for code, hint in HINTS.items() if error.verify_code in code), "")
    if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
        return "the upstream does not speak TLS at this port: it may be one for amqp://"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, OSError) and (words := network_error(error) or error.strerror):
        return words
    return str(error) or type(error).__name__
