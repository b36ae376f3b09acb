"""The first Ctrl-C or SIGTERM asks, a second Ctrl-C quits at once, and the handlers go back (bad inputs 64, 65)."""

import signal
import subprocess
import sys
import threading

import pytest

from asap.cli.learning import _leave_if_stopped
from asap.runs.directory import Run
from asap.runs.signals import StopRequest


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_only_asks(number, code):
    with StopRequest() as stop:
        assert stop.requested is None and stop.exit_code == 0
        signal.raise_signal(number)
        assert stop.requested == number and stop.exit_code == code
    assert stop.requested == number and stop.exit_code == code


def test_a_second_interrupt_is_immediate():
    with pytest.raises(KeyboardInterrupt), StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert stop.exit_code == 130


def test_an_interrupt_after_a_polite_request_is_immediate_too():
    with pytest.raises(KeyboardInterrupt), StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert stop.exit_code == 143


def test_schedulers_may_repeat_sigterm():
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:  # It would end pytest itself.
        pytest.fail("SIGTERM is not impatient")
    assert stop.exit_code == 130


def test_the_handlers_go_back_even_after_an_error():
    def mine(number, frame):
        pass

    before = signal.signal(signal.SIGTERM, mine), signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(ZeroDivisionError), StopRequest():
            assert signal.getsignal(signal.SIGTERM) is not mine
            1 / 0
        assert signal.getsignal(signal.SIGTERM) is mine and signal.getsignal(signal.SIGINT) is before[1]
    finally:
        signal.signal(signal.SIGTERM, before[0])


def test_requests_nest():
    with StopRequest() as outer:
        with StopRequest() as inner:
            signal.raise_signal(signal.SIGTERM)
        assert inner.requested and not outer.requested
        signal.raise_signal(signal.SIGINT)
    assert outer.exit_code == 130


def test_outside_the_main_thread_nothing_is_installed():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


LOOP = """
import sys, time
from asap.runs.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.01)
        if stop.requested and sys.argv[1] == "obedient":
            print("saved", flush=True)
            sys.exit(stop.exit_code)
        if stop.requested:
            print("asked", flush=True)
            time.sleep(20)
"""


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_process_that_is_asked_saves_and_reports_the_signal(number, code):
    with subprocess.Popen([sys.executable, "-c", LOOP, "obedient"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.communicate(timeout=10)[0] == "saved\n"
    assert child.returncode == code


def test_a_busy_process_quits_at_the_second_interrupt():
    command = [sys.executable, "-c", LOOP, "busy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=5)[1].endswith("KeyboardInterrupt\n")
    assert child.returncode in (130, -signal.SIGINT)  # Without the command line around it, Python ends by the signal.


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_was_stopped_ends_as_if_by_the_signal(tmp_path, capsys, number, code):
    """A script that goes on only after success must not go on with half of a training."""
    run, stop = Run(tmp_path, pytest.fail), StopRequest()
    _leave_if_stopped(run, stop)
    stop.requested = int(number)
    with pytest.raises(SystemExit) as ended:
        _leave_if_stopped(run, stop)
    assert ended.value.code == code and f"asap train --resume {tmp_path}" in capsys.readouterr().err
