"""The access log if its file cannot be written."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tests.support.http import Api, incoming_of
from warren.plugins.management.framework.access_log import AccessLog
from warren.plugins.management.service import ManagementService


def test_a_folder_that_cannot_be_written_fails_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    api = Api()
    management = dataclasses.replace(api.host.config.management, http_log_dir=str(tmp_path / "file"))
    api.host.config = dataclasses.replace(api.host.config, management=management)
    try:
        with pytest.raises(ValueError, match=r"management\.http_log_dir: .*file: it is a file, and a folder is needed"):
            asyncio.run(ManagementService().start(api.host))
    finally:
        api.close()


def test_requests_are_answered_while_it_cannot_be_written_and_one_error_is_logged(tmp_path: Path) -> None:
    lines: list[tuple[str, str, dict[str, object]]] = []
    log = AccessLog(str(tmp_path / "missing" / "http"), lambda *line: lines.append(line))
    incoming = incoming_of(user="guest")
    for _ in range(3):
        log.write(incoming, "/", 200, 2, 0)
    assert [(event, fields["reason"]) for event, _, fields in lines] == [
        ("http_log_not_written", f"{tmp_path}/missing/http/access.log: there is no such file or folder: check the path")
    ]
    log.prepare()
    log.write(incoming, "/", 200, 2, 0)
    assert (tmp_path / "missing" / "http" / "access.log").read_text().startswith("127.0.0.1 - guest ")
