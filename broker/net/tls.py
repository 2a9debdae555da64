"""TLS for listeners: a context that is loaded from files, and again when they change.

A connection keeps its context; new connections get the last one that could be loaded.
"""

import os
import ssl
from dataclasses import dataclass, field

from ..runtime.supervisor import Report
from ..system_errors import check_regular, file_error, read_bytes

VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
# The reason that OpenSSL gives for a failed handshake -> what it means
HANDSHAKE_ERRORS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate",
    **dict.fromkeys(
        ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_BAD_CERTIFICATE"),
        "the client does not trust the broker's certificate",
    ),
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"),
        "the client does not speak TLS",
    ),
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that is configured",
    "NO_SHARED_CIPHER": "the client offers no cipher that is configured",
}
TLS_1_3_CIPHER = "TLS_"  # prefix of the ciphers of TLS 1.3, which OpenSSL always offers
HANDSHAKE_TIMEOUT_S = 5.0
NO_CERTIFICATE = "it has no certificate in PEM format"


@dataclass(slots=True)
class TLSOptions:
    """The `ssl_options` of the configuration. The key is in `certfile` if there is no `keyfile`."""

    certfile: str
    keyfile: str = ""
    cacertfile: str = ""
    password: str = field(default="", repr=False)
    verify: bool = False  # requests a certificate of clients
    certificate_required: bool = False  # refuses clients without one
    versions: tuple[str, ...] = ("tlsv1.3", "tlsv1.2")
    ciphers: tuple[str, ...] = ()
    honor_cipher_order: bool = True
    login_from: str = "distinguished_name"  # the field of a certificate that names the user (certificates.py)
    handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S

    def __post_init__(self) -> None:
        self.keyfile = self.keyfile or self.certfile

    @property
    def files(self) -> list[str]:
        return [name for name in dict.fromkeys((self.certfile, self.keyfile, self.cacertfile)) if name]


class TLS:
    """The TLS context of new connections. The constructor raises ValueError with a sentence about an unusable file."""

    def __init__(self, options: TLSOptions, report: Report) -> None:
        self.options = options
        self._report = report
        self._seen = self._stamps()
        self.context = context_of(options)

    def reload_if_changed(self) -> None:
        """Reload if a file has changed since the last call."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            self.reload()

    def reload(self) -> bool:
        """Load the context again, and return whether that succeeded; a failure is logged and the old one stays."""
        try:
            self.context = context_of(self.options)
        except ValueError as error:
            self._report("certificates_not_loaded", "error", {"reason": str(error), "files": self.options.files})
            return False
        self._report("certificates_loaded", "info", {"files": self.options.files})
        return True

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [stamp(name) for name in self.options.files]


def handshake_error(error: OSError) -> str:
    """Return why a handshake with a client has failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason:
        return HANDSHAKE_ERRORS.get(reason, reason.replace("_", " ").lower())
    return error.strerror or str(error) or "the client has closed the connection"


def stamp(name: str) -> tuple[int, int, int] | None:
    """Return a value that differs after a file was changed or replaced; None for a file that does not exist."""
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def context_of(options: TLSOptions) -> ssl.SSLContext:
    """Return a new context. Raises ValueError for invalid options, and files that are unreadable or do not match."""
    unknown = [version for version in options.versions if version not in VERSIONS]
    if unknown or not options.versions:
        raise ValueError(f"TLS version {unknown[0] if unknown else ''!r} is not one of {', '.join(VERSIONS)}")
    if (options.verify or options.certificate_required) and not options.cacertfile:
        raise ValueError("verify_peer needs a cacertfile")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = sorted(VERSIONS[version] for version in options.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    # No session tickets, as in RabbitMQ: clients that read and write in two threads (AMQPStorm) can hang on them.
    context.num_tickets = 0
    if options.honor_cipher_order:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    ciphers = [cipher for cipher in options.ciphers if not cipher.startswith(TLS_1_3_CIPHER)]
    try:
        if ciphers:
            context.set_ciphers(":".join(ciphers))
    except ssl.SSLError:
        raise ValueError(f"OpenSSL knows none of the ciphers {', '.join(ciphers)}") from None
    load_files(context, options)
    if options.verify:
        context.verify_mode = ssl.CERT_REQUIRED if options.certificate_required else ssl.CERT_OPTIONAL
    return context


def load_files(context: ssl.SSLContext, options: TLSOptions) -> None:
    """Load certificates and key into a context. Raises ValueError."""
    try:
        for name in options.files:
            check_regular(name)
            open(name, "rb").close()  # OpenSSL does not say which file it cannot read
        # A callback, because OpenSSL would otherwise prompt at the terminal.
        context.load_cert_chain(options.certfile, options.keyfile, lambda: options.password)
    except ssl.SSLError as error:
        raise ValueError(pair_error(options, error)) from None
    except OSError as error:
        raise ValueError(file_error(error)) from None
    if options.cacertfile and not has_certificate(options.cacertfile, context):
        raise ValueError(f"{options.cacertfile}: {NO_CERTIFICATE}")


def has_certificate(name: str, context: ssl.SSLContext) -> bool:
    """Trust the certificates in a file, and return whether it has any."""
    try:
        context.load_verify_locations(name)
    except ssl.SSLError:
        return False
    return True


def pair_error(options: TLSOptions, error: ssl.SSLError) -> str:
    """Return what is wrong with a certificate and its key that OpenSSL refuses."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{options.keyfile} is not the key of the certificate in {options.certfile}"
    if not has_certificate(options.certfile, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)):
        return f"{options.certfile}: {NO_CERTIFICATE}"
    try:
        key = read_bytes(options.keyfile)
    except OSError as fault:
        return file_error(fault)
    if b"PRIVATE KEY-----" not in key:
        return f"{options.keyfile}: it has no private key in PEM format"
    if b"ENCRYPTED" in key:
        wrong = "the configured password is not its own" if options.password else "no password is configured"
        return f"{options.keyfile}: the key is encrypted, and {wrong}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{options.certfile} and {options.keyfile}: OpenSSL refuses them: {reason}"
