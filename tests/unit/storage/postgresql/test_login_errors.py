"""The reason of a failed login: a sentence with what to do, in place of libpq's lines."""

import pytest

from warren.broker.storage.postgresql.session import login_error

SERVER = 'connection failed: connection to server at "db" (10.0.0.7), port 5432 failed: '
ASKED = "\n\tIs the server running on that host and accepting TCP/IP connections?"
PASSWORD = "(storage.password_file, --password-file, PGPASSWORD)"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f'{SERVER}FATAL:  password authentication failed for user "w"',
            f'db:5432: password authentication failed for user "w"; check the password {PASSWORD}',
        ),
        (f'{SERVER}FATAL:  database "d" does not exist', 'db:5432: database "d" does not exist; create the database ('),
        (f'{SERVER}FATAL:  role "w" does not exist', 'db:5432: role "w" does not exist; create the role (CREATE ROLE'),
        (f"{SERVER}fe_sendauth: no password supplied", "db:5432: fe_sendauth: no password supplied; give a file with"),
        (
            f"{SERVER}Connection refused{ASKED}\nMultiple connection attempts failed. All failures were:\n"
            f"- host: 'x', port: '1', hostaddr: '10.0.0.7': {SERVER}Connection refused{ASKED}",
            "db:5432: Connection refused; start the server, or check host and port",
        ),
        ("something\nelse", "something else"),
    ],
)
def test_a_failed_login_is_a_sentence(text: str, sentence: str) -> None:
    assert login_error(text).startswith(sentence) and "\n" not in login_error(text)


def test_each_server_is_named_once() -> None:
    text = f"{SERVER}timeout expired\n{SERVER.replace('5432', '5433')}Connection refused\n{SERVER}timeout expired"
    assert login_error(text).startswith("db:5432: timeout expired; db:5433: Connection refused; start the server")
