"""Commands for TLS: versions, cipher suites, certificates that expire. `ssl` is imported where it is needed."""

import time

from ..call import Call, Item
from ..command import CHECKS, DIAGNOSTICS, LISTING, MONITORING
from ..errors import UNAVAILABLE, USAGE, APIError, CommandError, bad_argument
from ..formats import Rows

DAY_S = 86_400
TIME_UNITS = {"days": 1, "weeks": 7, "months": 28, "years": 365}


def ciphers(every: bool = False) -> list[Item]:
    """Return the cipher suites of this installation."""
    import ssl

    context = ssl.create_default_context()
    if every:
        context.set_ciphers("ALL")
    return [dict(one) for one in context.get_ciphers()]


def suites_banner(call: Call) -> str:
    named = {"erlang": "Erlang term", "map": "map"}.get(call.text("format"), "OpenSSL")
    return f"Listing available cipher suites in {named} format"


def cipher_suites(call: Call) -> str:
    """Raises CommandError (65) for an unknown format."""
    found, form = ciphers(call.flag("all")), call.text("format", "openssl")
    if form == "openssl":
        return "\n".join(str(one["name"]) for one in found)
    if form not in ("erlang", "map"):
        raise bad_argument("Format should be either openssl, erlang or map")
    suites = [suite_of(one) for one in found]
    if form == "map":
        names = ("cipher", "mac", "prf", "key_exchange")
        terms = ["#{" + ",".join(f"{name} => {suite[name]}" for name in names) + "}" for suite in suites]
    else:
        terms = ["{" + ",".join(suite.values()) + "}" for suite in suites]
    return "\n".join(["[", "\n,".join(terms), "]"])


def suite_of(cipher: Item) -> dict[str, str]:
    """Return a cipher suite in Erlang's words."""
    exchange, login = str(cipher["kea"]).removeprefix("kx-"), str(cipher["auth"]).removeprefix("auth-")
    hashed = str(cipher["name"]).rpartition("SHA")[2]
    return {
        "key_exchange": exchange if exchange in ("any", login) else f"{exchange}_{login}",
        "cipher": str(cipher["symmetric"]).replace("-", "_").replace("/", "_"),
        "mac": "aead" if cipher["aead"] else str(cipher["digest"]).replace("sha1", "sha"),
        "prf": f"sha{hashed}" if cipher["aead"] and hashed.isdecimal() else "default_prf",
    }


def check_certificate_expiration(call: Call) -> str:
    unit, within = call.text("unit", "weeks"), call.integer("within", 4)
    if unit not in TIME_UNITS:
        text = f"unit '{unit}' is not supported. Please use one of: {', '.join(TIME_UNITS)}"
        raise CommandError(USAGE, f'"{text}"', argument=True)
    until_s = time.time() + within * TIME_UNITS[unit] * DAY_S
    try:
        call.get("health/checks/certificate-expiration/{within}/{unit}", within=str(within), unit=unit)
    except APIError as error:
        lines = expiring_lines(error.answer, until_s)
        if error.status != 503:
            raise
        head = f"Certificates on node {call.node} are about to expire:"
        raise CommandError(UNAVAILABLE, "\n".join([head, *lines]) if lines else error.reason) from None
    return f"No certificates are expiring within {within} {unit.removesuffix('s') if within == 1 else unit}."


def expiring_lines(answer: object, until_s: float) -> list[str]:
    """Return a line for each certificate that expires before `until_s`; an answer without file names has none."""
    import ssl

    return [
        f"{one['interface']}:{one['port']} ({one['protocol']}): {one[file]} expires on {expiry}"
        for one in (answer.get("expired", []) if isinstance(answer, dict) else [])
        for file in ("certfile", "cacertfile")
        for expiry in one.get(f"{file}_expires_on", ())
        if ssl.cert_time_to_seconds(expiry) < until_s
    ]


# fmt: off
DIAGNOSTICS.local("tls_versions: Lists versions of TLS", "Listing all TLS versions supported by the runtime...",
                  lambda call: "tlsv1.3\ntlsv1.2")
MONITORING.local(f"list_ciphers {LISTING}: Lists cipher suites for TLS", "Listing supported ciphers ...",
                 lambda call: Rows(["cipher"], [[one["name"]] for one in ciphers()]))
DIAGNOSTICS.local("cipher_suites [--format <format>] [--all]: Lists cipher suites for TLS", suites_banner,
                  cipher_suites)
CHECKS("check_certificate_expiration [--within <within>] [--unit <unit>]: Fails if certificates are about to expire",
       "Checking certificate expiration on node {node} ...", check_certificate_expiration)
