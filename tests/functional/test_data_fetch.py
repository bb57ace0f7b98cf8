"""Fetch files from a local HTTP server with faults."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.core.errors import HarnessError
from harness.data import fetch as fetching
from harness.data.fetch import Arrival, FetchProgress, fetch_files
from harness.data.files import SATML, Base, PublicFile
from tests.functional.machine import ROOT, wait_until
from tests.tools.data import SATML as LOCAL_SATML
from tests.tools.data import require_data


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(fetching, "RETRY_SECONDS", (0.01, 0.01))


class Server(ThreadingHTTPServer):
    """Serves `files` by name and records the requested names. Tests set its faults."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.cut_after: list[int] = []  # bytes of the body before the connection is cut, one entry per request
        self.answers: list[int] = []  # statuses to answer instead of the file, one per request
        self.seconds_between_chunks = 0.0

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_):
        """Write no log."""

    def do_GET(self):
        name = self.path.lstrip("/")
        self.server.requests.append(name)
        body = self.server.files.get(name)
        if self.server.answers or body is None:
            self.send_response(self.server.answers.pop(0) if self.server.answers else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cut_after:
            body = body[: self.server.cut_after.pop(0)]
            self.close_connection = True
        try:
            for at in range(0, len(body), 4096):
                self.wfile.write(body[at : at + 4096])
                self.wfile.flush()
                time.sleep(self.server.seconds_between_chunks)
        except ConnectionError:
            self.close_connection = True


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def listed(name, content):
    return PublicFile(name, Base.CHALLENGE, name, len(content), hashlib.sha256(content).hexdigest())


CONTENT = os.urandom(100_000)
FILE = listed("rows.npy", CONTENT)


def fetch(folder, source, files=(FILE,)):
    return list(fetch_files(files, folder, source, lambda file, done: None))


def test_a_fetched_file_is_complete_and_alone(server, tmp_path):
    server.files["rows.npy"] = CONTENT
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_a_complete_file_is_not_requested_again(server, tmp_path):
    (tmp_path / "rows.npy").write_bytes(CONTENT)
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.ALREADY_THERE]
    assert server.requests == []


def test_a_broken_download_starts_again(server, tmp_path):
    server.files["rows.npy"], server.cut_after = CONTENT, [30_000, 40_000]
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT
    assert server.requests == ["rows.npy"] * 3


def test_repeated_failures_end_the_fetch_and_leave_nothing_behind(server, tmp_path):
    server.files["rows.npy"], server.cut_after = CONTENT, [60_000, 0, 10]
    outcomes = fetch(tmp_path, server.address, (FILE, listed("other.npy", b"other")))
    assert [outcome.arrival for outcome in outcomes] == [Arrival.FAILED]
    assert "cannot download" in outcomes[0].fault and "\n" not in outcomes[0].fault
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_checksum_is_named_and_leaves_nothing_behind(server, tmp_path):
    server.files["rows.npy"] = CONTENT[::-1]
    (outcome,) = fetch(tmp_path, server.address)
    assert outcome.arrival is Arrival.FAILED
    for named in ("rows.npy", FILE.sha256, hashlib.sha256(CONTENT[::-1]).hexdigest()):
        assert named in outcome.fault
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_long_is_refused_early(server, tmp_path):
    server.files["rows.npy"] = os.urandom(3_000_000)
    (outcome,) = fetch(tmp_path, server.address)
    assert "has more than 100,000 bytes" in outcome.fault
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_does_not_stop_the_others(server, tmp_path):
    other = listed("other.npy", b"other")
    server.files["other.npy"] = b"other"
    outcomes = fetch(tmp_path, server.address, (FILE, other))
    assert [outcome.arrival for outcome in outcomes] == [Arrival.LACKING, Arrival.FETCHED]
    assert [path.name for path in tmp_path.iterdir()] == ["other.npy"]


def test_a_busy_server_is_asked_again_but_a_refusal_is_final(server, tmp_path):
    server.files["rows.npy"], server.answers = CONTENT, [503]
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    server.answers, server.requests = [403], []
    (outcome,) = fetch(tmp_path / "again", server.address)
    assert "answered 403" in outcome.fault and len(server.requests) == 1


def test_an_unreachable_server_ends_the_fetch_with_one_sentence(tmp_path):
    outcomes = fetch(tmp_path, "http://127.0.0.1:9", (FILE, listed("other.npy", b"other")))
    assert len(outcomes) == 1 and "cannot download" in outcomes[0].fault
    assert list(tmp_path.iterdir()) == []


def test_files_from_a_directory_are_checked_too(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    wrong, short = listed("wrong.npy", CONTENT), listed("short.npy", CONTENT)
    (source / "rows.npy").write_bytes(CONTENT)
    (source / "wrong.npy").write_bytes(CONTENT[::-1])
    (source / "short.npy").write_bytes(CONTENT[:10])
    outcomes = fetch(folder, str(source), (FILE, wrong, short, listed("absent.npy", b"absent")))
    expected = [Arrival.FETCHED, Arrival.FAILED, Arrival.FAILED, Arrival.LACKING]
    assert [outcome.arrival for outcome in outcomes] == expected
    assert FILE.sha256 in outcomes[1].fault and "10 bytes" in outcomes[2].fault
    assert [path.name for path in folder.iterdir()] == ["rows.npy"]


def test_a_missing_source_directory_is_refused(tmp_path):
    with pytest.raises(HarnessError, match="neither a directory nor"):
        fetch(tmp_path, str(tmp_path / "absent"))


def harness(*arguments, data):
    command = [sys.executable, "-c", "from harness.cli.entry import main; main()", *arguments]
    environment = {**os.environ, "HARNESS_DATA": str(data), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_an_interrupted_fetch_of_the_challenge_keeps_complete_files(server, tmp_path):
    require_data(LOCAL_SATML)
    server.files = {path.name: path.read_bytes() for path in LOCAL_SATML.iterdir()}
    # Slow enough that the interrupt comes while files are left on any machine.
    server.seconds_between_chunks = 0.005
    process = harness("data", "fetch", "satml", "--from", server.address, data=tmp_path)
    # The second request proves that the first file is complete.
    wait_until(lambda: process.poll() is not None or len(server.requests) >= 2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in error and "Traceback" not in error
    kept = {path.name for path in (tmp_path / "satml").iterdir()}
    assert server.requests[0] in kept and len(kept) < len(server.files)
    assert all((tmp_path / "satml" / name).read_bytes() == server.files[name] for name in kept)

    server.seconds_between_chunks, server.requests = 0.0, []
    process = harness("data", "fetch", "satml", "--from", server.address, data=tmp_path)
    printed, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert not kept & set(server.requests)
    arrivals = dict(line.split(maxsplit=1) for line in printed.splitlines())
    lacking = {file.name for file in SATML} - set(server.files)
    assert {name for name, arrival in arrivals.items() if arrival == "lacking"} == lacking
    assert "satml-dev: complete." in error and "satml-test: complete (blind" in error
    assert all(name in error for name in lacking)
    for path in (tmp_path / "satml").iterdir():
        assert path.read_bytes() == server.files[path.name]


def test_a_fetch_without_a_terminal_prints_size_share_and_eta(server, tmp_path):
    first, second = SATML[:2]
    server.files = {file.name: bytes(file.size) for file in (first, second)}
    process = harness("data", "fetch", "satml", "--from", server.address, "--json", data=tmp_path)
    printed, error = process.communicate(timeout=120)
    assert process.returncode == 1
    states = {file["file"]: file["state"] for file in json.loads(printed)["files"]}
    assert states.pop(first.name) == states.pop(second.name) == "failed" and set(states.values()) == {"lacking"}
    lines = [line for line in error.splitlines() if line.startswith("satml: ")]
    total = sum(file.size for file in SATML)
    assert lines[0] == f"satml: 0.0 of {total / 1e6:.1f} MB (0%) · {first.name}"
    share = f"{first.size / 1e6:.1f} of {total / 1e6:.1f} MB ({first.size / total:.0%})"
    assert any(re.fullmatch(rf"satml: {re.escape(share)}, ETA \d+:\d\d · {second.name}", line) for line in lines)


def test_existing_files_do_not_shorten_the_eta():
    files = tuple(listed(f"{number}.npy", bytes(10_000_000)) for number in range(3))
    progress = FetchProgress("set", files)
    assert progress.line(files[1], 0) == "set: 10.0 of 30.0 MB (33%) · 1.npy"
    progress.line(files[1], 10_000_000)
    assert re.fullmatch(r"set: 20\.0 of 30\.0 MB \(67%\), ETA 0:00 · 2\.npy", progress.line(files[2], 0))


@pytest.mark.parametrize("address", ["http://", "http://127.0.0.1:99999", "https://[::1", "http://a b"])
def test_an_invalid_address_is_refused_at_once(tmp_path, address):
    outcome = fetch(tmp_path, address)[0]
    assert outcome.arrival is Arrival.FAILED and "\n" not in outcome.fault
    assert list(tmp_path.iterdir()) == []
