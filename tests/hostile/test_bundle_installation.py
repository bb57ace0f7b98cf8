"""The installation of a bundle's environment runs no code of the bundle, and tells it no password."""

import base64
import hashlib
import http.server
import io
import json
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.submit.archive import archive_bytes
from tests.functional.bundler import Bundler, Packed, altered, files_of, finding, reason
from tests.functional.machine import SANDBOXES, Machine
from tests.tools.tiers import first_is_fast

PASSWORD = "open-sesame"
# A build backend that leaves a mark, and calls its listener if it has network access.
BACKEND = """\
import os, socket
open({mark!r}, "a").write(os.environ.get("PIP_INDEX_URL", "no index") + "\\n")
socket.create_connection(("127.0.0.1", {port}), 5).close()
def build_wheel(*_): raise SystemExit(3)
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def _sdist(mark: Path, port: int) -> bytes:
    """Return a source distribution whose build backend lies in itself."""
    files = {
        "evil-1/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n',
        "evil-1/own.py": BACKEND.format(mark=str(mark), port=port),
        "evil-1/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
    }
    with tarfile.open(fileobj=(content := io.BytesIO()), mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def _without_torch(draws: Packed) -> dict[str, bytes]:
    spec = json.loads(files_of(draws.zip)["code/spec.json"])
    spec["versions"]["torch"] = "absent"
    return {"code/spec.json": json.dumps(spec).encode()}


@pytest.mark.parametrize(
    "smuggled", first_is_fast(["../bundle/code/evil-1.tar.gz", "--index-url {url}\n# +AAo-evil==1"])
)
def test_no_hidden_line_of_a_lock_reaches_the_installer(
    each_sandbox: Bundler, draws: Packed, tmp_path: Path, listener: socket.socket, smuggled: str
) -> None:
    """In UTF-7, +AAo- is a line feed, so pip would find more in these comments."""
    work, port = tmp_path / "work", listener.getsockname()[1]
    mark = work / "env" / "mark"  # where the installer may write
    sdist = _sdist(mark, port)
    hidden = smuggled.format(url=f"http://127.0.0.1:{port}/simple")
    lock = f"# coding: utf-7\n# +AAo-{hidden} --hash=sha256:{hashlib.sha256(sdist).hexdigest()}\n"
    changes = {"code/evil-1.tar.gz": sdist, "code/requirements.txt": lock.encode()}
    bundle = altered(draws.zip, tmp_path / "x.zip", _without_torch(draws) | changes)
    settings = {"PIP_INDEX_URL": f"http://user:{PASSWORD}@127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_TIMEOUT": "2"}
    machine = Machine(each_sandbox.machine.folder, each_sandbox.machine.environment | settings)
    options = ("--allow-network-install", "--work", str(work), "--out", str(tmp_path))
    verdict = machine.json("bundle", "verify", str(bundle), *each_sandbox.round, *options, code=1)
    assert not mark.exists() and reason(verdict)[0] == "code"
    with pytest.raises(BlockingIOError):
        listener.accept()


class _Index(http.server.ThreadingHTTPServer):
    """A package index on this machine that demands a password, with one wheel."""

    def __init__(self, name: str, wheel: bytes) -> None:
        self.name, self.wheel = name, wheel
        self.served: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Index

    def do_GET(self) -> None:
        expected = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
        if self.headers["Authorization"] != f"Basic {expected}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.served.append(self.path)
        page = f'<a href="/{self.server.name}">{self.server.name}</a>'.encode()
        content = self.server.wheel if self.path.endswith(".whl") else page
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def index() -> Iterator[_Index]:
    record = "peaceful.py,,\nleft.pth,,\npeaceful-1.dist-info/METADATA,,\npeaceful-1.dist-info/WHEEL,,\n"
    wheel = archive_bytes(
        {
            "peaceful.py": b"import os\nprint(sorted(os.environ.items()))\n",
            # Python executes this line whenever it starts with this file in its path.
            "left.pth": b"import os, sys; open(os.path.join(sys.prefix, 'it-ran'), 'w')\n",
            "peaceful-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: peaceful\nVersion: 1\n",
            "peaceful-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "peaceful-1.dist-info/RECORD": (record + "peaceful-1.dist-info/RECORD,,\n").encode(),
        }
    )
    server = _Index("peaceful-1-py3-none-any.whl", wheel)
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("each_sandbox", "place"), zip(SANDBOXES, ("variable", "file"), strict=True), indirect=["each_sandbox"]
)
def test_the_password_of_an_index_is_seen_by_the_download_alone(
    each_sandbox: Bundler, draws: Packed, tmp_path: Path, index: _Index, place: str
) -> None:
    digest = hashlib.sha256(index.wheel).hexdigest()
    lock = f"peaceful==1 ; python_version >= '3' \\\n    --hash=sha256:{digest}\nother==1 ; os_name == 'x' \\\n"
    lock += f"    --hash=sha256:{digest}\n"
    changes = _without_torch(draws) | {"code/requirements.txt": lock.encode()}
    changes["code/run.sh"] = b'#!/usr/bin/env bash\nenv\n"$PYTHON" -c "import peaceful"\nexit 5\n'
    bundle = altered(draws.zip, tmp_path / "x.zip", changes)
    url = f"http://user:{PASSWORD}@127.0.0.1:{index.server_port}/simple"
    # The settings of this machine must not answer for the index.
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {url}\n" if place == "file" else "")
    settings = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}
    settings |= {"PIP_INDEX_URL": url} if place == "variable" else {}
    environment = {name: value for name, value in os.environ.items() if name.startswith("PIP_CERT")}
    machine = Machine(each_sandbox.machine.folder, each_sandbox.machine.environment | environment | settings)
    work = tmp_path / "work"
    options = ("--allow-network-install", "--work", str(work), "--out", str(tmp_path))
    verdict = machine.json("bundle", "verify", str(bundle), *each_sandbox.round, *options, code=1)
    assert finding(verdict, "environment")["holds"] and reason(verdict)[0] == "run"
    assert index.served == ["/simple/peaceful/", f"/{index.name}"]
    printed = (work / "run.log").read_text()
    assert "HARNESS_HOME" in printed and PASSWORD not in printed and PASSWORD not in (work / "install.log").read_text()
    assert (work / "requirements.txt").read_text() == f"peaceful==1 --hash=sha256:{digest}\n"
    # The code of the distribution ran, but not before the installation was over.
    assert "HARNESS_SANDBOX" in printed.splitlines()[-1] and not list(work.rglob("it-ran"))
