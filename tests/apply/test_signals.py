"""Signals while hosts are locked: put off where a lock is taken or given back, an interrupt in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from pdctl.apply.signals import POLITE, deferred, raising


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in POLITE}
    yield
    assert {number: signal.getsignal(number) for number in POLITE} == before


@pytest.fixture(autouse=True)
def not_ignored() -> Iterator[None]:
    """Who runs the tests may have this program ignore a signal (nohup), and so may a test before."""
    before = {number: signal.getsignal(number) for number in POLITE}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in POLITE[1:]:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", POLITE)
def test_what_is_being_done_is_done_to_its_end_first(number: signal.Signals) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred():
        os.kill(os.getpid(), number)
        done.append("all of it")
    assert done == ["all of it"]


@pytest.mark.parametrize("number", POLITE)
def test_in_between_every_polite_signal_ends_the_work(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), raising():
        os.kill(os.getpid(), number)
        pytest.fail("the work went on")


def test_what_fails_while_a_signal_is_put_off_is_told_first() -> None:
    with pytest.raises(ValueError, match="first"), deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError("first")


def test_one_that_is_ignored_stays_so() -> None:
    """nohup pdctl apply: it goes on when the terminal goes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raising(), deferred():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
