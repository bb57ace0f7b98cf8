"""`harness bundle verify` on hostile code: it cannot escape, block the verification or leave anything behind."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from harness.submit.archive import archive_bytes
from tests.functional.bundler import (
    OWN_ENVIRONMENT,
    Bundler,
    Packed,
    altered,
    altered_files,
    files_of,
    finding,
    reason,
    with_run_sh,
)
from tests.functional.machine import EXAMPLES, Machine, processes_that_name, wait_until
from tests.tools.tiers import first_is_fast

HOSTILE = "\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script> \u202eright to left"


WRITE_EVERYWHERE = (
    'for place in "$here" "$here/.." "$here/../.." /tmp /usr /etc /var/tmp "$HOME/.." "$OUTSIDE"; do',
    '  echo x > "$place/reached" && echo "reached $place"',
    "done 2>/dev/null; exit 5",
)


def test_code_writes_only_to_its_scratch_directory(each_sandbox: Bundler, draws: Packed, tmp_path: Path) -> None:
    script = [line.replace("$OUTSIDE", str(tmp_path)) for line in WRITE_EVERYWHERE]
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", *script)
    work = tmp_path / "work"
    name, sentence = reason(each_sandbox.verify(bundle, "--work", str(work), code=1))
    assert (name, "reached" in sentence) == ("run", False)
    found = [path for folder in (tmp_path, Path("/tmp"), Path("/usr"), Path("/etc")) for path in folder.glob("reached")]
    assert found == [] and not list((work / "bundle").rglob("reached"))


@pytest.mark.slow
def test_installation_runs_no_code_of_the_bundle(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    wheels, work = tmp_path / "wheels", tmp_path / "work"
    wheels.mkdir()
    record = "evil.pth,,\nevil-1.dist-info/METADATA,,\nevil-1.dist-info/WHEEL,,\nevil-1.dist-info/RECORD,,\n"
    content = archive_bytes(
        {
            # site.py executes this line whenever Python starts with this file in its path.
            "evil.pth": b"import os, sys; open(os.path.join(sys.prefix, 'it-ran'), 'w')\n",
            "evil-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
            "evil-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "evil-1.dist-info/RECORD": record.encode(),
        }
    )
    (wheels / "evil-1-py3-none-any.whl").write_bytes(content)
    lock = f"evil==1 \\\n    --hash=sha256:{hashlib.sha256(content).hexdigest()}\n".encode()
    spec = json.loads(files_of(draws.zip)["code/spec.json"])
    spec["versions"]["torch"] = "absent"
    changes = {"code/requirements.txt": lock, "code/spec.json": json.dumps(spec).encode()}
    bundle = altered(draws.zip, tmp_path / "x.zip", changes)
    given = ("--wheels", str(wheels), "--work", str(work), "--out", str(tmp_path))
    verdict = bundler.machine.json("bundle", "verify", str(bundle), *bundler.round, *given, code=1)
    assert finding(verdict, "environment")["holds"] and reason(verdict)[0] == "run"
    assert list((work / "env").rglob("evil.pth")) and not list(work.rglob("it-ran"))


@pytest.mark.slow
def test_code_cannot_read_submission_or_answers(each_sandbox: Bundler, draws: Packed, tmp_path: Path) -> None:
    folder = each_sandbox.machine.folder
    places = ['"$here/../submission.csv"', '"$here/../MANIFEST.json"', '"$here/README.md"', str(draws.run.submission)]
    places += [str(folder / f"answer-{EXAMPLES}.npy"), str(folder / "round.toml"), str(draws.zip)]
    script = [f"if head -c1 {place} >/dev/null 2>&1; then echo SEEN {place}; exit 7; fi" for place in places]
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", *script, "exit 5")
    assert reason(each_sandbox.verify(bundle, code=1)) == ("run", "the code failed: exit code 5")


@pytest.mark.slow
@pytest.mark.parametrize("flood", ["yes", "cat /dev/zero"])
def test_endless_output_does_not_extend_the_budget(bundler: Bundler, draws: Packed, tmp_path: Path, flood: str) -> None:
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", flood)
    work = tmp_path / "work"
    name, sentence = reason(bundler.verify(bundle, "--budget", "1s", "--work", str(work), code=1))
    assert (name, sentence) == ("budget", "the code was ended after 0:01 plus 0:05 for startup")
    assert (work / "run.log").stat().st_size <= 8 << 20


@pytest.mark.slow
def test_no_process_of_the_code_is_left(each_sandbox: Bundler, draws: Packed, tmp_path: Path) -> None:
    mark = "918273"
    script = [
        f"setsid nohup sleep {mark} >/dev/null 2>&1 &",
        f"(trap '' TERM HUP; sleep {mark}; sleep {mark}) &",
        "exit 0",
    ]
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", *script)
    assert reason(each_sandbox.verify(bundle, code=1))[0] == "produced"
    wait_until(lambda: not processes_that_name(mark))


OUT = '"$2"'


@pytest.mark.parametrize(
    "action",
    first_is_fast(
        [
            "exit 0",
            f"ln -s {{submission}} {OUT}",
            f"ln -s /etc/passwd {OUT}",
            f"ln -s {OUT} {OUT}",
            f"mkfifo {OUT}",
            f"mkdir {OUT}",
            f"truncate -s 3G {OUT}",
            f"head -c 3000000 /dev/urandom > {OUT}",
            f"printf '\\xff\\xfe\\x00' > {OUT}",
            f"yes 0 | head -c 50000000 > {OUT}",
            f"echo x > {OUT}; chmod 000 {OUT}; chmod 000 .",
            f"cp {{code}}/spec.json {OUT}",
        ]
    ),
)
def test_an_invalid_output_file_is_refused(bundler: Bundler, draws: Packed, tmp_path: Path, action: str) -> None:
    action = action.format(submission=draws.run.submission, code='"$here"')
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", action)
    name, sentence = reason(bundler.verify(bundle, code=1))
    assert name == "produced" and sentence.startswith("the code did not write a valid submission: ")
    assert len(sentence) < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "action",
    ["mkfifo scores.csv", "mkdir scores.csv", "ln -s /dev/zero scores.csv", "echo x > scores.csv"],
)
def test_invalid_scores_do_not_block_verification(bundler: Bundler, draws: Packed, tmp_path: Path, action: str) -> None:
    rows = files_of(draws.zip)["submission.csv"].decode().splitlines()
    rows[1], rows[-1] = rows[-1], rows[1]
    script = [action, f"cat > {OUT} <<'END'", *rows, "END"]
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", *script)
    assert reason(bundler.verify(bundle, code=1))[0] == "agreement"


@pytest.mark.slow
def test_a_full_scratch_directory_is_refused(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 12 << 30:
        pytest.skip("12 GiB of free disk space are needed, of which 9 are reserved and none is written.")
    script = [f"fallocate -l 3G part{number} || exit 9" for number in range(3)] + ["sleep 60"]
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", *script)
    name, sentence = reason(bundler.verify(bundle, code=1))
    assert (name, sentence) == (
        "run",
        "the code failed: it wrote more than 8 GiB or 500,000 files to its scratch folder",
    )


@pytest.mark.slow
def test_hostile_text_is_sanitized(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    words = HOSTILE.replace("'", "")
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", f"printf '%s\\n' '{words}'", "exit 5")
    marks = [{"check": HOSTILE, "sentence": HOSTILE}]
    bundle = altered(bundle, tmp_path / "y.zip", {}, marks=marks)
    stdout, page = _shown(bundler, bundle)
    assert "red" in stdout and "red" in page


def test_a_hostile_file_name_is_sanitized(bundler: Bundler, draws: Packed, tmp_path: Path) -> None:
    (folder := tmp_path / "z").mkdir()
    _shown(bundler, altered_files(draws.zip, folder / f"{HOSTILE.replace('/', '')}.zip", {"extra\u202e": b""}))


def _shown(bundler: Bundler, bundle: Path) -> tuple[str, str]:
    """Verify a refused bundle. Return its stdout and page, which cannot steer a terminal or run a script."""
    done = bundler.machine.run("bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT, code=1)
    page = bundle.with_name(f"{bundle.stem}.verdict.html").read_text()
    for shown in (done.stdout, done.stderr, page):
        assert not set(shown) & set("\x1b\x07\u202e")
    assert "<script" not in page
    return done.stdout, page


@pytest.mark.parametrize(
    ("backend", "number"),
    [
        ("bwrap", signal.SIGKILL),
        ("landlock", signal.SIGKILL),
        ("landlock", signal.SIGINT),
        ("landlock", signal.SIGTERM),
    ],
)
def test_an_interrupted_verification_leaves_no_process(
    bundler: Bundler, draws: Packed, tmp_path: Path, backend: str, number: signal.Signals
) -> None:
    mark = f"{700_000 + os.getpid()}.{int(number)}"
    bundle = with_run_sh(draws.zip, tmp_path / "x.zip", f"sleep {mark} & sleep {mark}")
    (temporary := tmp_path / "tmp").mkdir()
    machine = Machine(bundler.machine.folder, {"TMPDIR": str(temporary), "HARNESS_SANDBOX": backend})
    process = machine.start("bundle", "verify", str(bundle), *bundler.round, *OWN_ENVIRONMENT)
    wait_until(lambda: [one for one in processes_that_name(mark) if one.name() == "sleep"])
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode != 0
    wait_until(lambda: not processes_that_name(mark))
    assert not bundle.with_name("x.verdict.json").exists()
    if number is not signal.SIGKILL:
        assert list(temporary.iterdir()) == []
