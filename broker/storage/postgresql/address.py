"""The address of a store: a URL of PostgreSQL, where its password comes from, and the settings of its connections."""

from dataclasses import dataclass

from ...system_errors import file_error, read_text
from ..errors import StorageFault

try:
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError:
    raise StorageFault(
        "a store on PostgreSQL needs psycopg, which is not installed: pip install '.[postgresql]' in a clone of Warren"
    ) from None

SCHEMES = ("postgresql://", "postgres://")
NAME_BYTES = 63  # the longest name of PostgreSQL
# A server that does not answer is noticed within seconds, also while nothing is sent.
DEFAULTS: dict[str, str | int] = {
    "target_session_attrs": "read-write",
    "connect_timeout": 3,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a store."""

    conninfo: str  # the parameters of connections, with the password
    shown: str  # the same for operators, without the password
    schema: str  # the schema with the tables of the store


def is_url(text: str) -> bool:
    """Whether this is a URL of PostgreSQL, and not the path of a folder."""
    return text.startswith(SCHEMES)


def parse(url: str, password_file: str = "", schema: str = "warren") -> Address:
    """Return the address with this URL. Raises StorageFault, whose text has no part of the URL, nor of a password."""
    try:
        parameters = conninfo_to_dict(url) if is_url(url) else None
    except Error as error:
        fault = one_line(error).replace('"]"', "]").partition('"')[0].rstrip(" :")  # a part of the URL may follow
        raise StorageFault(f"storage.url: {fault}") from None
    if parameters is None:
        raise StorageFault("storage.url: not of the form postgresql://USER@HOST1,HOST2/DATABASE")
    if not schema or len(schema.encode()) > NAME_BYTES or "\0" in schema:
        raise StorageFault(f"storage.schema: not a name of PostgreSQL: {schema!r}")
    if password_file:
        try:
            parameters["password"] = read_text(password_file).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = file_error(error, password_file) if isinstance(error, OSError) else f"{password_file}: not UTF-8"
            raise StorageFault(f"storage.password_file: {reason}") from None
    hosts = str(parameters.get("host") or parameters.get("hostaddr") or "the local socket")
    shown = f"postgresql://{parameters.get('user', '')}@{hosts}/{parameters.get('dbname', '')} (schema {schema})"
    return Address(make_conninfo("", **{**DEFAULTS, **parameters}), shown, schema)


def one_line(error: object) -> str:
    """Return the text of an error of the server in one line."""
    return " ".join(str(error).split())
