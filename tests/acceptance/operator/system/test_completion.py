"""Completion in real shells, by the script that `warren completion` prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import WARREN, WARRENCTL, environment_of

# what a shell does at TAB: the words are $1 and on, and candidates are printed, one a line
BASH = """
source ./script
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_$1_completion $1
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { : }
_describe() { print -l -- ${${(P)argv[3]}%%:*} }
compadd() { print -l -- ${(P)argv[-1]} }
source ./script
words=("$@") CURRENT=$#
_$1_completion
"""
FISH = """
source ./script
complete -C "$argv" | cut -f 1
"""
SHELLS = {"bash": (BASH, "--norc"), "zsh": (ZSH, "-f"), "fish": (FISH, "--no-config")}
LINES = [
    ("warren se", {"serve"}),
    ("warren an", {"analyze"}),  # a command of a plugin
    ("warren help an", {"analyze"}),
    ("warren serve --cl", {"--cluster-name"}),
    ("warren store ", {"init", "check"}),
    ("warren completion z", {"zsh"}),
    ("warrenctl list_queues nam", {"name"}),
    ("warrenctl list_queues --off", {"--offline"}),
    ("warrenctl set_user_l", {"set_user_limits"}),
    ("warrenctl help list_cons", {"list_consumers"}),
]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds both commands on PATH."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in (("warren", WARREN), ("warrenctl", WARRENCTL)):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (commands / name).chmod(0o755)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    return environment_of(tmp_path) | {"PATH": path, "HOME": str(tmp_path)}


def test_the_shell_completes_commands_and_options(shell: str, environment: dict[str, str], tmp_path: Path) -> None:
    printed = subprocess.check_output(["warren", "completion", shell], cwd=tmp_path, env=environment, text=True)
    (tmp_path / "script").write_text(printed)
    text, option = SHELLS[shell]
    found = {}
    for line, _ in LINES:
        words = [line] if shell == "fish" else line.split(" ")
        name = [] if shell == "fish" else [shell]
        command = [shell, option, "-c", text, *name, *words]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        found[line] = set(ran.stdout.split())
        assert ran.stderr == "", ran.stderr
    assert found == dict(LINES)
