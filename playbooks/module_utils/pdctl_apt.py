"""apt-get, dpkg and apt-mark of this host: after its locks, within limits, failures in words."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Mapping

from ansible.module_utils.pdctl_apt_locks import wait_for_locks
from ansible.module_utils.pdctl_apt_words import full_disk, reasons, site, troubles
from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe_apt import dpkg_was_cut, unfinished

LOCK_S = 600  # an unattended upgrade on a fresh machine holds dpkg's lock for minutes
FETCH_S = 1800
STALL_S = 30  # a mirror that sends nothing for so long is asked once more, then given up (apt: Acquire)
# What apt says when its lists are older than the repository, or were never fetched.
STALE = ("Unable to locate package", "was not found", "has no installation candidate", "404  Not Found")
LOOK_S = 1.0
LOCAL = ("file:", "copy:", "cdrom:")  # apt's methods that need no network
Done = subprocess.CompletedProcess[str]


class Late(Problem):
    """Something was still being fetched when its time was up."""


class Apt:
    """`limits`: `lock_timeout_s` and `fetch_timeout_s`; `did` grows by what was done on the way."""

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        known = limits or {}
        self.lock_s = float(known.get("lock_timeout_s", LOCK_S))
        self.fetch_s = float(known.get("fetch_timeout_s", FETCH_S))
        self.did: list[str] = []
        self.locked_out = False  # somebody else did not let go of a lock: then nothing else is tried
        self.untaken: list[str] = []  # repositories that the last update could not take in, and why

    def update(self) -> None:
        """Fetch the lists. A repository that gives none is in `untaken`: it may be one that nothing needs."""
        try:
            done = self.call(["apt-get", *self.options(), "update", "--error-on=any"], self.fetch_s)
        except Late as error:
            self.untaken = [str(error)]
            return
        found = troubles(done.stderr) if done.returncode else []
        self.untaken = found or ([reasons(done.stdout, done.stderr)] if done.returncode else [])

    def simulate(self, words: list[str]) -> Done:
        return self.call(["apt-get", *self.options(), "-s", *words], locks=False)

    def install(self, words: list[str]) -> None:
        """What has to come over the network comes first, within the limit; then dpkg takes its time."""
        fetch = ["apt-get", *self.options(), "--download-only", *words]
        done = self.call(fetch, self.fetch_s)
        if done.returncode and any(sign in done.stderr for sign in STALE):
            self.update()
            done = self.call(fetch, self.fetch_s)
        self.must(done, "fetching packages")
        self.must(self.call(["apt-get", *self.options(), *words]), "apt-get install")

    def purge(self, names: list[str]) -> None:
        self.must(self.call(["apt-get", *self.options(), "purge", *names]), "apt-get purge")

    def mark(self, verb: str, names: list[str]) -> None:
        if names and not self.locked_out:
            self.must(self.call(["apt-mark", verb, *names]), f"apt-mark {verb}")

    def drop(self, names: list[str]) -> None:
        """New packages that could not be set up would block every later run of apt."""
        if names and not self.locked_out:
            self.call(["dpkg", "--purge", "--force-remove-reinstreq", *names])

    def resume(self, ours: Collection[str]) -> None:
        """Finishes what dpkg was cut off at, where that was pdctl's; others' scripts are not ours to run."""
        left, cut = unfinished(), dpkg_was_cut()
        others = [f"{name} ({state})" for name, state in left.items() if name not in ours]
        if others:
            what = "was interrupted" if cut else "has left packages unfinished"
            raise Problem(
                f"dpkg {what} here, at packages that are not pdctl's: {', '.join(others)}. Nothing was"
                " installed. Run `dpkg --configure -a` there (and `apt-get -f install` where it asks for"
                " that), then apply again"
            )
        if left or cut:
            done = self.call(["dpkg", "--configure", "-a", "--force-confold"])
            if cut or not done.returncode:
                self.must(done, "dpkg --configure -a")
            self.did.append(f"run dpkg --configure -a: it was cut off at {', '.join(left) or 'its work'}")

    def options(self) -> list[str]:
        stall = f"{min(STALL_S, max(1, int(self.fetch_s)))}"
        pairs = {
            "DPkg::Lock::Timeout": f"{max(1, int(self.lock_s))}",
            # Without it dpkg's errors come on stderr, where they can be told from its progress.
            "Dpkg::Use-Pty": "0",
            "Dpkg::Options::": "--force-confold",
            "Acquire::Retries": "1",
            **{f"Acquire::{kind}::Timeout": stall for kind in ("http", "https", "ftp")},
        }
        return ["-q", "-y", *(word for pair in pairs.items() for word in ("-o", "=".join(pair)))]

    def call(self, command: list[str], limit_s: float | None = None, locks: bool = True) -> Done:
        """`limit_s` is for what only fetches: dpkg at work is never cut off."""
        if locks:
            self._wait()
        done = _run(command, limit_s)
        if done.returncode and "Could not get lock" in done.stderr and locks:
            self._wait()  # somebody else was quicker
            done = _run(command, limit_s)
        return done

    def _wait(self) -> None:
        self.locked_out = True
        wait_for_locks(self.lock_s)
        self.locked_out = False

    def must(self, done: Done, what: str, more: str = "") -> None:
        if not done.returncode:
            return
        full = full_disk(done.stderr)
        if full:
            raise Problem(
                f"{what} failed: {full}. Make room there, then apply again: it finishes what is left"
                f" (apt: {reasons(done.stdout, done.stderr)})"
            )
        unread = "; ".join(troubles(done.stderr))
        said = unread or reasons(done.stdout, done.stderr)
        raise Problem(f"{what} failed: {said}{f' ({more})' if more else ''}")


def late(stdout: str, limit_s: float) -> str:
    """Who had not answered when the time was up: apt names a mirror once its answer begins."""
    named = re.findall(r"^(?:Get|Ign|Err|Hit):\d+ (\S+)", stdout, re.MULTILINE)
    remote = [one for one in _sites() if not one.startswith(LOCAL)]
    silent = [one for one in remote if one not in map(site, named)]
    begun = [one for one in named if not one.startswith(LOCAL)]
    sites = silent or begun[-1:] or remote
    who = sites[0] if len(sites) == 1 else f"one of {', '.join(sites) or 'its repositories'}"
    limit = f"within {limit_s:g} s (`apt.fetch_timeout_s` in the spec)"
    return f"{who} did not send all that was asked of it {limit}"


def _sites() -> list[str]:
    """All that an update asks, of `'http://host/ubuntu/dists/jammy/InRelease' name 0` lines."""
    done = _run(["apt-get", "update", "--print-uris"], None)
    return list(dict.fromkeys(site(line.split("'")[1]) for line in done.stdout.splitlines() if "'" in line))


def _run(command: list[str], limit_s: float | None) -> Done:
    """Raises Late once `limit_s` has passed, when it has ended it with all its children."""
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C", NEEDRESTART_MODE="l")
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=limit_s is not None,
            encoding="utf-8",
            errors="replace",
        ) as running:
            out, err = running.communicate() if limit_s is None else _within(running, limit_s)
            return Done(command, running.returncode, out, err)
    except FileNotFoundError:
        raise Problem(f"{command[0]} is not on this host: only Debian and Ubuntu are managed") from None


def _within(running: subprocess.Popen[str], limit_s: float) -> tuple[str, str]:
    deadline = time.monotonic() + limit_s
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return running.communicate(timeout=max(0.0, min(LOOK_S, deadline - time.monotonic())))
            stay_for_audience()
            if time.monotonic() >= deadline:
                break
    except Problem:
        os.killpg(running.pid, signal.SIGTERM)
        raise
    os.killpg(running.pid, signal.SIGTERM)
    out, _ = running.communicate()
    raise Late(late(out, limit_s))
