"""`harness export --mlflow`: attack runs in a real MLflow store, and refused requests."""

import contextlib
import json
import os
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.submit.mlflow_export import _metrics, _with_valid_keys, require_mlflow
from tests.records import recorded_run
from tests.tools.completions_server import Reply, completions_server
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_json import check
from tests.unit.submit.ended import ended_run, make_hostile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an MLflow store in an SQLite file, which takes seconds to make."""
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder}/mlflow.db"
    with contextlib.chdir(folder):
        client = require_mlflow().MlflowClient(tracking_uri=uri)
        for name in ("one", "redacted", "blind", "gone"):
            client.create_experiment(name, artifact_location=f"{folder}/{name}")
        client.delete_experiment(client.get_experiment_by_name("gone").experiment_id)
    return uri


@pytest.fixture
def client(store: str) -> Any:
    return require_mlflow().MlflowClient(tracking_uri=store)


def artifact(client: Any, run: str, name: str) -> bytes:
    return (Path(client.get_run(run).info.artifact_uri) / name).read_bytes()


def export(harness: CommandLine, store: str, experiment: str, *options: str) -> dict[str, Any]:
    done = harness("export", "abcd", "--mlflow", store, "--experiment", experiment, "--json", *options)
    assert done.code == 0, done.err
    return done.json


def test_a_run_is_logged_with_parameters_metrics_tags_and_files(
    harness: CommandLine, home: Path, store: str, client: Any
) -> None:
    folder = ended_run(home)
    printed = export(harness, store, "one")
    check(printed, "`harness export --mlflow`")
    run = client.get_run(printed["mlflow_run"])
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ["report.html", "submission.csv"]
    assert artifact(client, run.info.run_id, "submission.csv") == folder.submission.read_bytes()
    assert run.info.status == "FINISHED" and run.info.run_name == "abcd-some"
    assert run.info.end_time - run.info.start_time == 2500
    assert run.data.params.items() >= {"seed": "0", "budget_s": "60.0"}.items()
    scorecard = json.loads(folder.scorecard.read_bytes())
    assert run.data.metrics["recall_at_cap"] == scorecard["recall_at_cap"] == 6 / 16
    assert run.data.metrics["any_guess_correct"] == scorecard["any_guess_correct"]
    curve = client.get_metric_history(run.info.run_id, "recall_over_time")
    assert [(point.step, point.value) for point in curve] == [(0, 0.0), (2, 6 / 16)]
    assert run.data.tags.items() >= {"harness.run": "abcd-some", "harness.status": "finished"}.items()
    assert export(harness, store, "one")["mlflow_run"] != printed["mlflow_run"]


def test_a_redacted_export_leaves_no_guess_in_the_store(
    harness: CommandLine, home: Path, store: str, client: Any
) -> None:
    folder = ended_run(home)
    rows = [line.split('"')[1] for line in folder.submission.read_text().splitlines()[1:]]
    run = export(harness, store, "redacted", "--redact")["mlflow_run"]
    assert [file.path for file in client.list_artifacts(run)] == ["report.html"]
    content = artifact(client, run, "report.html").decode().replace(" ", "")
    assert not [row for row in rows if row in content or row[1:-1].replace(",", "") in content]


def test_a_hostile_run_is_logged_in_printable_text(harness: CommandLine, home: Path, store: str, client: Any) -> None:
    make_hostile(ended_run(home))
    run = client.get_run(export(harness, store, "one", "--redact")["mlflow_run"])
    texts = "".join([*run.data.params, *run.data.params.values(), *run.data.metrics, *run.data.tags.values()])
    assert not {"\x1b", "\u202e"} & set(texts) and str(home) not in texts


def test_every_finite_figure_gets_a_key_that_mlflow_accepts() -> None:
    rates = {"trigram": {"value": np.float64(0.4), "low": 0.3, "high": 0.5, "of": 10}, "p > 0.5": 0.25}
    odd = {"a b": 1, "a/b": 2, "": 3, "..": 4, "x" * 300: 5}
    other = {"is_complete": True, "unknown": None, "infinite": float("inf"), "model": "demo", "numbers": [1, 2, 3]}
    assert _with_valid_keys(_metrics({"rates": rates, **odd, **other})) == {
        "rates.trigram": 0.4,
        "rates.trigram.low": 0.3,
        "rates.trigram.high": 0.5,
        "rates.trigram.of": 10.0,
        "rates.p_0.5": 0.25,
        "a_b": 1.0,
        "a_b_": 2.0,
        "_": 3.0,
        "__": 4.0,
        "x" * 200: 5.0,
        "is_complete": 1.0,
    }


def test_a_blind_run_is_logged_without_scores(harness: CommandLine, home: Path, store: str, client: Any) -> None:
    ended_run(home, is_blind=True, phase="stopped")
    run = client.get_run(export(harness, store, "blind")["mlflow_run"])
    assert run.data.metrics["rows"] == 16 and not {"recall_at_cap", "recall_over_time"} & set(run.data.metrics)
    assert run.info.status == "KILLED" and run.data.tags["harness.status"] == "stopped"


def refused(harness: CommandLine, *options: str, code: int = 1, run: str = "abcd") -> str:
    """Return the error of an export, which is one line without a traceback."""
    done = harness("export", run, *options)
    assert done.code == code and not done.out
    assert "internal error" not in done.err and "Traceback" not in done.err
    return done.err


def test_a_deleted_experiment_is_refused(harness: CommandLine, home: Path, store: str) -> None:
    ended_run(home)
    assert "Current state is deleted" in refused(harness, "--mlflow", store, "--experiment", "gone")


def test_an_address_without_a_store_is_refused_in_a_sentence(harness: CommandLine, home: Path) -> None:
    ended_run(home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://me:secret@127.0.0.1:{free.getsockname()[1]}"
        # The port is bound and nothing listens on it.
        error = refused(harness, "--mlflow", address)
    assert "http://127.0.0.1:" in error and "no MLflow server answers" in error and "secret" not in error
    assert "no such directory" in refused(harness, "--mlflow", f"sqlite:///{home}/absent/mlflow.db")
    for directory in ("mlruns", str(home), f"file://{home}"):
        assert "Use a database file, e.g. sqlite:///mlflow.db." in refused(harness, "--mlflow", directory)
    (home / "text.db").write_text("no database, but long enough to be read as the header of one" * 20)
    with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(home / "text.db") as connection:
        connection.execute("SELECT name FROM sqlite_master")
    assert "it refused (" in refused(harness, "--mlflow", f"sqlite:///{home}/text.db")


def test_a_run_that_goes_on_and_an_unknown_one_are_refused(harness: CommandLine, home: Path, store: str) -> None:
    recorded = recorded_run(home, pid=os.getpid())
    recorded.event("phase", phase="running")
    error = refused(harness, "--mlflow", store)
    assert "abcd-some is running. Wait for its end with `harness watch abcd-some`" in error
    recorded.release()
    assert "unknown run 'nope'" in refused(harness, "--mlflow", store, run="nope", code=2)


def test_options_that_contradict_each_other_are_refused(harness: CommandLine, home: Path, store: str) -> None:
    ended_run(home)
    assert "Remove --out, --all, --trials and --force" in refused(harness, "--mlflow", store, "--all", code=2)
    assert "needs --mlflow" in refused(harness, "--redact", code=2)
    assert "needs --mlflow" in refused(harness, "--experiment", "x", code=2)
    assert "name an address" in refused(harness, "--mlflow", "", code=2)


def test_without_the_client_the_error_names_the_extra(
    harness: CommandLine, home: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_run(home)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "pip install -e '.[mlflow]'" in refused(harness, "--mlflow", store)


@pytest.mark.parametrize("uri", ["htp://me:hunter2@127.0.0.1:9", "http://me:hunter2@{address}/?token=hunter2"])
def test_a_refused_export_shows_no_password(uri: str, harness: CommandLine, home: Path) -> None:
    ended_run(home)
    with completions_server(lambda body, number: Reply(400)) as server:
        address = server.url.removeprefix("http://").removesuffix("/v1")
        done = harness("export", "abcd", "--mlflow", uri.format(address=address))
    assert done.code == 1
    assert "hunter2" not in done.err + done.out
    assert "127.0.0.1" in done.err
