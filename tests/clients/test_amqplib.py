"""amqplib, the client for Node.js: the files in node/, run by `node --test`.

They need node 18 or later; missing modules are installed with npm.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NODE_FOLDER = Path(__file__).resolve().parent / "node"
RUN_TIMEOUT_S = 180
INSTALL_TIMEOUT_S = 120
OLDEST_NODE = 18
NO_REGISTRY = re.compile(r"\b(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|EHOSTUNREACH|ECONNREFUSED|ECONNRESET|ETIMEDOUT)\b")


def why_not() -> str:
    """Return why the tests cannot run here, or ""."""
    node = shutil.which("node")
    if node is None:
        return f"amqplib is not tested: there is no node on PATH (node {OLDEST_NODE} or later is needed)"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0]) < OLDEST_NODE:
        return f"amqplib is not tested: node is {version}, {OLDEST_NODE} or later is needed"
    if not (NODE_FOLDER / "node_modules" / "amqplib").is_dir() and shutil.which("npm") is None:
        return "amqplib is not tested: its modules are missing and there is no npm on PATH to install them"
    return ""


REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture(scope="module")
def node_modules() -> None:
    if (NODE_FOLDER / "node_modules" / "amqplib").is_dir():
        return
    command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=0"]
    done = subprocess.run(command, cwd=NODE_FOLDER, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    if done.returncode and (error := NO_REGISTRY.search(done.stderr)):
        pytest.skip(f"amqplib is not tested: npm cannot reach its registry to install it: {error[0]}")
    if done.returncode:
        pytest.fail(f"npm could not install amqplib:\n{done.stdout}{done.stderr}")


@pytest.mark.timeout(RUN_TIMEOUT_S + INSTALL_TIMEOUT_S)
@pytest.mark.parametrize("file", [path.name for path in sorted(NODE_FOLDER.glob("*.test.js"))])
def test_amqplib(node_modules, broker_url, file):
    command = ["node", "--test", "--test-reporter=tap", file]
    environment = {**os.environ, "WARREN_URL": broker_url}
    done = subprocess.run(
        command, cwd=NODE_FOLDER, env=environment, capture_output=True, text=True, timeout=RUN_TIMEOUT_S
    )
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed and int(passed[1]) > 0, "no test was found:\n" + done.stdout
