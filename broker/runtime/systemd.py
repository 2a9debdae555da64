"""Notifications of the state of the broker for systemd, if it has started the process.

A notification is a datagram of lines NAME=VALUE to the socket that NOTIFY_SOCKET names (sd_notify(3)). Without that
variable nothing is sent. If the unit sets WatchdogSec=, the event loop sends WATCHDOG=1 twice in that time, so that
systemd ends and restarts a broker whose loop hangs.
"""

import asyncio
import os
import socket
import time
from collections.abc import MutableMapping

from .supervisor import Report

SEND_S = 1.0  # for a notification, if systemd is slow to read them


class Systemd:
    """The process as a service of systemd. `watchdog_s` is the time within which systemd expects WATCHDOG=1, or 0."""

    def __init__(self, environment: MutableMapping[str, str], report: Report) -> None:
        """Remove the variables from the environment, because processes that the broker starts must not notify."""
        self._address = environment.pop("NOTIFY_SOCKET", "")
        usec, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        meant = self._address and usec.isdecimal() and pid in ("", str(os.getpid()))
        self.watchdog_s = int(usec) / 1e6 if meant else 0.0
        self._report = report

    def ready(self, status: str) -> None:
        """Notify that the broker serves clients, or waits as a standby; the watchdog begins with it."""
        self._notify("READY=1", f"STATUS={status}", *self._watchdog(self.watchdog_s))

    def status(self, text: str) -> None:
        """Notify of a state in words, which `systemctl status` shows."""
        self._notify(f"STATUS={text}")

    def recovering(self, text: str) -> None:
        """Notify of a recovery after `ready`, which holds the loop for as long as it takes: the watchdog pauses."""
        self._notify(f"STATUS={text}", *self._watchdog(0.0))

    def reloading(self) -> None:
        """Notify that the configuration is read again; `reloaded` has to follow."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self) -> None:
        self._notify("READY=1")

    def stopping(self) -> None:
        """Notify that the broker stops; the watchdog ends with it."""
        self._notify("STOPPING=1", "STATUS=stopping")

    async def watch(self) -> None:
        """Send WATCHDOG=1 until cancelled; return at once if systemd does not expect it."""
        while self.watchdog_s:
            self._notify("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 2)

    def _watchdog(self, seconds: float) -> list[str]:
        return [f"WATCHDOG_USEC={seconds * 1e6:.0f}"] if self.watchdog_s else []

    def _notify(self, *lines: str) -> None:
        """Send a notification; log the failure of one."""
        if not self._address:
            return
        # a leading @ stands for the zero byte of an abstract address
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.settimeout(SEND_S)
                sending.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            fields: dict[str, object] = {"lines": list(lines), "reason": error.strerror or str(error)}
            self._report("systemd_not_notified", "warning", fields)
