"""Fetching from a real HTTP server on loopback that behaves as badly as servers do."""

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.data.catalog import SATML, Base, PublicFile
from harness.data.fetch import Arrival, fetched
from tests.functional.machine import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED_SATML = REPOSITORY.parent / "shared" / "data" / "satml"
SOON = (0.01, 0.01)


class Server(ThreadingHTTPServer):
    """Serves `files` by name. What it does wrong is set by a test; what it was asked is in `requests`."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.cut_after: list[int] = []  # bytes of body before the connection dies, one entry a request
        self.knows_ranges = True
        self.announced_length: int | None = None
        self.answers: list[int] = []  # statuses to give instead of the file, one a request
        self.seconds_between_chunks = 0.0

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_):
        """Quiet."""

    def do_GET(self):
        name, asked = self.path.lstrip("/"), self.headers.get("Range")
        self.server.requests.append((name, asked, self.headers.get("If-Range")))
        content = self.server.files.get(name)
        if self.server.answers or content is None:
            self.send_response(self.server.answers.pop(0) if self.server.answers else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        first = 0
        if asked and self.server.knows_ranges and self.headers.get("If-Range", tag) == tag:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
        if first >= len(content):
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", tag)
        body = content[first:]
        self.send_header("Content-Length", str(self.server.announced_length or len(body)))
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
        if self.server.announced_length is not None:
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
    return list(fetched(files, folder, source, lambda file, done: None, SOON))


def test_a_file_arrives_whole_and_nothing_else_stays(server, tmp_path):
    server.files["rows.npy"] = CONTENT
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_a_file_that_is_there_already_is_not_asked_for(server, tmp_path):
    (tmp_path / "rows.npy").write_bytes(CONTENT)
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.ALREADY_THERE]
    assert server.requests == []


def test_a_connection_cut_in_the_middle_is_gone_on_with_where_it_was_cut(server, tmp_path):
    server.files["rows.npy"], server.cut_after = CONTENT, [30_000, 40_000]
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT
    tag = f'"{hashlib.md5(CONTENT).hexdigest()}"'
    assert server.requests == [
        ("rows.npy", None, None),
        ("rows.npy", "bytes=30000-", tag),
        ("rows.npy", "bytes=70000-", tag),
    ]


def test_when_it_is_cut_again_and_again_one_sentence_is_left_and_the_next_fetch_resumes(server, tmp_path):
    server.files["rows.npy"], server.cut_after = CONTENT, [60_000, 0, 0, 0, 0]
    (outcome,) = fetch(tmp_path, server.address)
    assert outcome.arrival is Arrival.FAILED
    assert "60,000 of 100,000 bytes are kept" in outcome.fault and "\n" not in outcome.fault
    assert (tmp_path / "rows.npy.part").stat().st_size == 60_000 and not (tmp_path / "rows.npy").exists()
    server.cut_after, server.requests = [], []
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert server.requests == [("rows.npy", "bytes=60000-", None)]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT


def test_a_server_without_ranges_sends_the_file_once_more(server, tmp_path):
    server.files["rows.npy"], server.cut_after, server.knows_ranges = CONTENT, [60_000], False
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT


def test_a_file_that_changed_on_the_server_meanwhile_is_not_glued_together(server, tmp_path):
    server.files["rows.npy"], server.cut_after = CONTENT[::-1], [60_000]

    def corrected(file, done):
        server.files["rows.npy"] = CONTENT

    outcomes = list(fetched([FILE], tmp_path, server.address, corrected, SOON))
    assert [outcome.arrival for outcome in outcomes] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT


@pytest.mark.parametrize("kept", [CONTENT[::-1][:60_000], CONTENT[::-1], CONTENT + b"more"])
def test_a_kept_beginning_of_something_else_costs_a_second_download_and_no_more(server, tmp_path, kept):
    server.files["rows.npy"] = CONTENT
    (tmp_path / "rows.npy.part").write_bytes(kept)
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


@pytest.mark.parametrize("announced", [70_000, 250_000])
def test_a_wrong_content_length_does_not_keep_the_right_bytes_away(server, tmp_path, announced):
    server.files["rows.npy"], server.announced_length, server.cut_after = CONTENT, announced, [announced]
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    assert (tmp_path / "rows.npy").read_bytes() == CONTENT


def test_a_wrong_checksum_names_file_expected_and_found_and_leaves_nothing_behind(server, tmp_path):
    server.files["rows.npy"] = CONTENT[::-1]
    (outcome,) = fetch(tmp_path, server.address)
    assert outcome.arrival is Arrival.FAILED
    for named in ("rows.npy", FILE.sha256, hashlib.sha256(CONTENT[::-1]).hexdigest()):
        assert named in outcome.fault
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_are_listed_are_refused_before_they_fill_the_disk(server, tmp_path):
    server.files["rows.npy"] = os.urandom(3_000_000)
    (outcome,) = fetch(tmp_path, server.address)
    assert "sends more than the 100,000 bytes listed" in outcome.fault
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_the_server_lacks_keeps_no_other_back(server, tmp_path):
    other = listed("other.npy", b"other")
    server.files["other.npy"] = b"other"
    outcomes = fetch(tmp_path, server.address, (FILE, other))
    assert [outcome.arrival for outcome in outcomes] == [Arrival.LACKING, Arrival.FETCHED]
    assert [path.name for path in tmp_path.iterdir()] == ["other.npy"]


def test_a_busy_server_is_asked_again_and_a_refusing_one_is_not(server, tmp_path):
    server.files["rows.npy"], server.answers = CONTENT, [503]
    assert [outcome.arrival for outcome in fetch(tmp_path, server.address)] == [Arrival.FETCHED]
    server.answers, server.requests = [403], []
    (outcome,) = fetch(tmp_path / "again", server.address)
    assert "answered 403" in outcome.fault and len(server.requests) == 1


def test_a_server_that_is_not_there_ends_the_fetch_with_one_sentence(tmp_path):
    outcomes = fetch(tmp_path, "http://127.0.0.1:9", (FILE, listed("other.npy", b"other")))
    assert len(outcomes) == 1 and "nothing arrived" in outcomes[0].fault
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_copied_with_the_same_checks(tmp_path):
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


def test_a_source_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(HarnessError, match="neither a folder nor"):
        fetch(tmp_path, str(tmp_path / "absent"))


def harness(*arguments, data):
    command = [sys.executable, "-c", "from harness.cli.app import main; main()", *arguments]
    environment = {**os.environ, "HARNESS_DATA": str(data), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_challenge_comes_over_http_with_a_cut_and_an_interrupt_and_its_rounds_are_complete(server, tmp_path):
    if not SHARED_SATML.exists():
        pytest.skip(f"the challenge's files are not at {SHARED_SATML}")
    server.files = {path.name: path.read_bytes() for path in SHARED_SATML.iterdir()}
    # Slow enough that no machine is done with the file before the interrupt comes.
    server.seconds_between_chunks = 0.1
    process = harness("data", "fetch", "satml", "--from", server.address, data=tmp_path)
    part = tmp_path / "satml" / "train_preprefix.npy.part"
    wait_until(lambda: part.exists() and part.stat().st_size > 100_000)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped" in said and "Traceback" not in said
    kept = part.stat().st_size
    assert 0 < kept < 3_000_128

    server.seconds_between_chunks, server.requests, server.cut_after = 0.0, [], [1_000_000]
    process = harness("data", "fetch", "satml", "--from", server.address, data=tmp_path)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert server.requests[0][1] == f"bytes={kept}-" and server.requests[1][1] == f"bytes={kept + 1_000_000}-"
    arrivals = dict(line.split(maxsplit=1) for line in printed.splitlines())
    lacking = {file.name for file in SATML} - set(server.files)
    assert {name for name, arrival in arrivals.items() if arrival == "lacking"} == lacking
    assert "satml-dev: complete." in said and "satml-test: complete (blind" in said
    assert all(name in said for name in lacking)
    for path in (tmp_path / "satml").iterdir():
        assert path.read_bytes() == server.files[path.name]


def test_two_fetches_do_not_write_one_file(server, tmp_path):
    server.files["rows.npy"] = CONTENT
    with (tmp_path / "rows.npy.part").open("wb") as other:
        other.write(CONTENT[:500])
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        (outcome,) = fetch(tmp_path, server.address)
    assert outcome.arrival is Arrival.FAILED and "another fetch is writing it" in outcome.fault
    assert (tmp_path / "rows.npy.part").read_bytes() == CONTENT[:500]


@pytest.mark.parametrize("address", ["http://", "http://127.0.0.1:99999", "https://[::1", "http://a b"])
def test_an_address_that_is_none_is_said_at_once(tmp_path, address):
    outcome = fetch(tmp_path, address)[0]
    assert outcome.arrival is Arrival.FAILED and "\n" not in outcome.fault
    assert list(tmp_path.iterdir()) == []
