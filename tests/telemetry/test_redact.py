"""Tests that secrets stay out of text, and the format of log lines and metrics."""

import base64
import copy
import json
import logging
import pickle
from urllib.parse import quote

import pytest

from steward.telemetry.log import LibraryLines, Log, LogLevel
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import Secret, SecretRegister
from tests.fake_clock import FakeClock

VALUE = 'cs_ä/+"canary\\&9'


def test_a_secret_shows_itself_nowhere() -> None:
    """Shows `***` in every conversion to text; only `reveal` and a copy return the value."""
    secret = Secret(VALUE)
    displayed = [
        str(secret), repr(secret), f"{secret}", f"{secret!r}", json.dumps({"a": secret}), secret + "",
        str({"a": secret}), str(pickle.dumps(secret)), "".join([secret]), secret.format(), secret.upper(),
    ]  # fmt: skip
    assert not any("canary" in text for text in displayed)
    assert json.loads(json.dumps(secret)) == "***"
    assert secret.__reduce_ex__(2)[1] == (Secret, "***")
    assert copy.deepcopy([secret])[0].reveal() == secret.reveal() == VALUE


def test_secrets_are_equal_by_value_and_never_to_text() -> None:
    """Compares and hashes secrets by their value; no secret equals a text."""
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("***") != "***"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


@pytest.mark.parametrize("before", ["", "k:", "ab", "user:"])
def test_every_form_of_a_live_secret_is_removed(before: str) -> None:
    """Removes a secret as it is, URL-encoded, in JSON and within base64 at any offset."""
    register = SecretRegister()
    register.add(Secret(VALUE))
    inside = base64.b64encode(f"{before}{VALUE}:more".encode()).decode()
    for form in (VALUE, quote(VALUE), quote(VALUE, safe=""), json.dumps(VALUE), inside):
        cleaned = register.clean(f"sent {form} to the shop")
        assert "[redacted]" in cleaned
        assert cleaned.startswith("sent ")
        assert "canary" not in cleaned
    assert VALUE[3:9] not in base64.b64decode(
        register.clean(inside).replace("[redacted]", "AAAA") + "=="
    ).decode("utf-8", "replace")


def test_short_values_are_left_and_several_found() -> None:
    """Leaves values under eight characters, and removes the longest of several that match."""
    register = SecretRegister()
    register.add("seven77", "eight888", "eight888-and-more")
    assert register.clean("seven77 eight888 eight888-and-more") == "seven77 [redacted] [redacted]"
    assert register.clean("") == ""
    register.add("888-and-most")
    assert register.clean("x eight888-and-most y") == "x [redacted] y"


def test_the_oldest_secret_is_forgotten_beyond_the_bound() -> None:
    """Removes no secret that 20,000 later ones have displaced."""
    register = SecretRegister()
    register.add("first-secret-of-all")
    register.add(*(f"another-secret-{number:06}" for number in range(20_000)))
    assert register.clean("first-secret-of-all") == "first-secret-of-all"
    assert register.clean("another-secret-019999") == "[redacted]"


def lines_of(clock: FakeClock, **options: object) -> tuple[Log, list[str], SecretRegister]:
    """Returns a log, the list that it writes to, and its register."""
    lines: list[str] = []
    register = SecretRegister()
    return Log(lines.append, clock, register, **options), lines, register  # type: ignore[arg-type]


def test_a_line_is_one_line_with_its_time_and_without_secrets(clock: FakeClock) -> None:
    """Writes one line of JSON with the time, and redacts secrets and fields with secret names."""
    log, lines, register = lines_of(clock)
    register.add(VALUE)
    log.info(
        "run_finished", run="01K", org=1, seconds=0.5, words=f"two\nlines {VALUE}", api_key="x", Cookie="y"
    )
    [line] = lines
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "time": "2026-05-01T06:00:00.000Z", "level": "info", "action": "run_finished", "run": "01K", "org": 1,
        "seconds": 0.5, "words": "two\nlines [redacted]", "api_key": "[redacted]", "Cookie": "[redacted]",
    }  # fmt: skip


def test_lines_under_the_level_are_not_written_and_text_has_its_form(clock: FakeClock) -> None:
    """Leaves out lines below the level, and writes the text format with escaped line breaks."""
    log, lines, _ = lines_of(clock, level=LogLevel.WARNING, form="text")
    log.debug("a")
    log.info("b")
    log.warning("c", run="1\n2")
    assert lines == ['2026-05-01T06:00:00.000Z warning c run="1\\n2"\n']


def test_a_traceback_and_a_librarys_line_are_cleaned_too(clock: FakeClock) -> None:
    """Redacts tracebacks and lines of libraries."""
    log, lines, register = lines_of(clock)
    register.add(VALUE)
    try:
        raise ValueError(VALUE)
    except ValueError as error:
        log.error("broken", error)
    logger = logging.getLogger("tests.taken")
    logger.addHandler(LibraryLines(log))
    logger.propagate = False
    logger.warning("failed with %s", VALUE)
    assert len(lines) == 2
    assert not any("canary" in line for line in lines)
    assert "ValueError: [redacted]" in lines[0]
    assert json.loads(lines[1])["logger"] == "tests.taken"


def test_a_long_traceback_keeps_its_end(clock: FakeClock) -> None:
    """Cuts a traceback at its beginning to 2000 characters."""
    log, lines, _ = lines_of(clock)

    try:
        raise ValueError("what went wrong " + "x" * 3000)
    except ValueError as error:
        error.add_note("the last words")
        log.error("broken", error)
    traceback = json.loads(lines[0])["traceback"]
    assert len(traceback) == 2000
    assert traceback.startswith("…")
    assert traceback.endswith("the last words\n")


def test_numbers_are_kept_by_name_and_printed_as_text() -> None:
    """Counts by name and label, and writes the text format of Prometheus."""
    metrics = Metrics()
    metrics.count("calls_total", connector="woocommerce")
    metrics.count("calls_total", 2, connector="woocommerce")
    metrics.set("runs_waiting", 4)
    for seconds in (0.004, 0.005, 0.2, 100):
        metrics.observe("call_seconds", seconds, bounds=(0.005, 1))
    assert metrics.value("calls_total", connector="woocommerce") == 3
    assert metrics.value("call_seconds") == 4
    lines = [line for line in metrics.text().splitlines() if line[0] != "#" and "process_" not in line]
    assert lines == [
        'calls_total{connector="woocommerce"} 3.0', "runs_waiting 4.0", 'call_seconds_bucket{le="0.005"} 2.0',
        'call_seconds_bucket{le="1.0"} 3.0', 'call_seconds_bucket{le="+Inf"} 4.0', "call_seconds_count 4.0",
        "call_seconds_sum 100.209",
    ]  # fmt: skip


def test_labels_take_no_input() -> None:
    """Refuses names and label values of other characters or too long, and more than 1000 series."""
    metrics = Metrics()
    for wrong in ('a"b', "x" * 61, "ä", "a\nb"):
        with pytest.raises(ValueError):
            metrics.count("calls_total", connector=wrong)
    with pytest.raises(ValueError):
        metrics.count("Not a name")
    for number in range(1000):
        metrics.count("calls_total", connector=str(number))
    with pytest.raises(ValueError):
        metrics.count("calls_total", connector="one more")
