"""`harness export --mlflow`: attack runs in a real MLflow store, exported once and again, and refused requests."""

import contextlib
import json
import os
import socket
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.runs.folder import add_tags
from harness.submit.mlflow_export import require_mlflow, shown_uri
from tests.completions_server import Reply, completions_server
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_json import check
from tests.unit.submit.ended import ended_run
from tests.unit.tui.recorded import recorded_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an MLflow store in an SQLite file, which takes seconds to make."""
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder}/mlflow.db"
    with contextlib.chdir(folder):
        client = require_mlflow().MlflowClient(tracking_uri=uri)
        for name in ("one", "again", "redacted", "other", "blind", "gone"):
            client.create_experiment(name, artifact_location=f"{folder}/{name}")
        client.delete_experiment(client.get_experiment_by_name("gone").experiment_id)
    return uri


@pytest.fixture
def client(store: str) -> Any:
    return require_mlflow().MlflowClient(tracking_uri=store)


def files_of(client: Any, run: str, folder: str | None = None) -> Iterator[str]:
    """Yield the paths of the artifacts of an MLflow run."""
    for file in client.list_artifacts(run, folder):
        if file.is_dir:
            yield from files_of(client, run, file.path)
        else:
            yield file.path


def artifact(client: Any, run: str, name: str) -> bytes:
    return (Path(client.get_run(run).info.artifact_uri) / name).read_bytes()


def points_of(client: Any, run: str, name: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in client.get_metric_history(run, name)]


def export(harness: CommandLine, store: str, experiment: str, *options: str) -> dict[str, Any]:
    done = harness("export", "abcd", "--mlflow", store, "--experiment", experiment, "--json", *options)
    assert done.code == 0, done.err
    return done.json


def test_a_run_is_logged_with_parameters_metrics_tags_and_files(
    harness: CommandLine, home: Path, store: str, client: Any
) -> None:
    folder = ended_run(home)
    add_tags(folder, ["good"])
    printed = export(harness, store, "one")
    check(printed, "`harness export --mlflow`")
    assert printed["is_new"] and printed["artifacts"] == ["report.html", "scorecard.json", "submission.csv"]
    run = client.get_run(printed["mlflow_run"])
    assert run.info.status == "FINISHED" and run.info.run_name == "abcd-some"
    assert run.info.end_time - run.info.start_time == 2500
    assert run.data.params.items() >= {"attack": "some", "round": "small", "seed": "0", "budget_s": "60.0"}.items()
    scorecard = json.loads(folder.scorecard.read_bytes())
    assert run.data.metrics["recall_at_cap"] == scorecard["recall_at_cap"] == 6 / 16
    assert run.data.metrics["recall_interval.low"] == scorecard["recall_interval"][0]
    assert run.data.metrics["any_of_n"] == scorecard["any_of_n"]
    assert points_of(client, printed["mlflow_run"], "recall_at_cap") == [(0, 0.0), (2, 6 / 16)]
    assert len(points_of(client, printed["mlflow_run"], "recall_at_errors")) == len(scorecard["at_errors"])
    tags = {"harness.run": "abcd-some", "harness.kind": "attack", "harness.status": "finished", "harness.tags": "good"}
    assert run.data.tags.items() >= tags.items()
    assert artifact(client, printed["mlflow_run"], "submission.csv") == folder.submission.read_bytes()
    assert json.loads(artifact(client, printed["mlflow_run"], "scorecard.json")) == scorecard


def test_a_second_export_updates_the_same_mlflow_run(
    harness: CommandLine, home: Path, store: str, client: Any, tmp_path: Path
) -> None:
    folder = ended_run(home)
    first = export(harness, store, "again")["mlflow_run"]
    before = {name: points_of(client, first, name) for name in client.get_run(first).data.metrics}
    (tmp_path / "mine.txt").write_text("mine")
    client.log_artifact(first, str(tmp_path / "mine.txt"))
    client.log_metric(first, "rows", 99.0, timestamp=client.get_run(first).info.end_time + 1, step=0)
    add_tags(folder, ["later"])
    second = export(harness, store, "again")
    assert second["mlflow_run"] == first and not second["is_new"]
    experiment = client.get_experiment_by_name("again").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.data.tags["harness.tags"] == "later" and run.info.status == "FINISHED"
    # A value that differs is logged again as the newest one; equal points are not repeated.
    assert run.data.metrics["rows"] == 16 and points_of(client, first, "rows")[-1] == (0, 16)
    assert {name: points_of(client, first, name) for name in before if name != "rows"} == {
        name: points for name, points in before.items() if name != "rows"
    }
    assert sorted(files_of(client, first)) == ["mine.txt", "report.html", "scorecard.json", "submission.csv"]


def test_another_run_with_the_same_id_gets_its_own_mlflow_run(
    harness: CommandLine, home: Path, store: str, client: Any
) -> None:
    folder = ended_run(home)
    first = export(harness, store, "other")["mlflow_run"]
    spec = folder.attack_spec().model_copy(update={"seed": 7})
    folder.spec_file.write_text(spec.model_dump_json())
    assert export(harness, store, "other")["mlflow_run"] != first


def test_a_redacted_export_leaves_no_guess_in_the_store(
    harness: CommandLine, home: Path, store: str, client: Any
) -> None:
    folder = ended_run(home)
    rows = [line.split('"')[1] for line in folder.submission.read_text().splitlines()[1:]]
    run = export(harness, store, "redacted")["mlflow_run"]
    assert all(row.encode() in artifact(client, run, "submission.csv") for row in rows)
    printed = export(harness, store, "redacted", "--redact")
    assert printed["mlflow_run"] == run
    assert list(files_of(client, run)) == ["report.html", "scorecard.json", "submission-redacted.csv"]
    for file in files_of(client, run):
        content = artifact(client, run, file).decode().replace(" ", "")
        assert not [row for row in rows if row in content or row[1:-1].replace(",", "") in content], file
    redacted = artifact(client, run, "submission-redacted.csv").decode().splitlines()
    assert len(redacted) == 1 + len(rows) and "4 tokens, sha256 " in redacted[1]
    assert client.get_run(run).data.tags["harness.is_redacted"] == "true"


def test_a_blind_run_is_logged_without_scores(harness: CommandLine, home: Path, store: str, client: Any) -> None:
    ended_run(home, is_blind=True, phase="stopped")
    run = client.get_run(export(harness, store, "blind")["mlflow_run"])
    assert run.data.metrics["rows"] == 16 and "recall_at_cap" not in run.data.metrics
    assert run.info.status == "KILLED" and run.data.tags["harness.status"] == "stopped"


def refused(harness: CommandLine, *options: str, code: int = 1, run: str = "abcd") -> str:
    """Return the error of an export, which is one line without a traceback."""
    done = harness("export", run, *options)
    assert done.code == code and not done.out
    assert "internal error" not in done.err and "Traceback" not in done.err
    return done.err


def test_a_changed_parameter_and_a_deleted_experiment_are_refused(
    harness: CommandLine, home: Path, store: str, client: Any
) -> None:
    folder = ended_run(home)
    run = export(harness, store, "one")["mlflow_run"]
    text = folder.spec_file.read_text()
    folder.spec_file.write_text(text.replace('"seed":0', '"seed":9'))
    other = export(harness, store, "one")["mlflow_run"]
    client.set_tag(run, "harness.spec_sha256", client.get_run(other).data.tags["harness.spec_sha256"])
    client.delete_run(other)
    options = ("--mlflow", store, "--experiment")
    assert f"the parameter seed has another value in MLflow run {run}" in refused(harness, *options, "one")
    assert "the experiment 'gone' is deleted" in refused(harness, *options, "gone")


def test_an_address_without_a_store_is_refused_in_a_sentence(harness: CommandLine, home: Path) -> None:
    ended_run(home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://me:secret@127.0.0.1:{free.getsockname()[1]}"
        # The port is bound and nothing listens on it.
        error = refused(harness, "--mlflow", address)
    assert "no MLflow server answers: http://127.0.0.1:" in error and "secret" not in error
    assert "no such directory" in refused(harness, "--mlflow", f"sqlite:///{home}/absent/mlflow.db")
    for directory in ("mlruns", str(home), f"file://{home}"):
        assert "Use a database file, e.g. sqlite:///mlflow.db." in refused(harness, "--mlflow", directory)
    (home / "text.db").write_text("no database, but long enough to be read as the header of one" * 20)
    with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(home / "text.db") as connection:
        connection.execute("SELECT name FROM sqlite_master")
    assert "MLflow refused the export" in refused(harness, "--mlflow", f"sqlite:///{home}/text.db")


def test_a_run_that_goes_on_and_an_unknown_one_are_refused(harness: CommandLine, home: Path, store: str) -> None:
    recorded = recorded_run(home, pid=os.getpid())
    recorded.event("phase", phase="running")
    error = refused(harness, "--mlflow", store)
    assert "abcd-some is running, and only a run that is over" in error and "harness watch abcd-some" in error
    recorded.release()
    assert "unknown run 'nope'" in refused(harness, "--mlflow", store, run="nope", code=2)


def test_options_that_contradict_each_other_are_refused(harness: CommandLine, home: Path, store: str) -> None:
    ended_run(home)
    assert "Remove --out, --all and --force" in refused(harness, "--mlflow", store, "--all", code=2)
    assert "with --mlflow only" in refused(harness, "--redact", code=2)
    assert "with --mlflow only" in refused(harness, "--experiment", "x", code=2)
    assert "name an address" in refused(harness, "--mlflow", "", code=2)


def test_without_the_client_the_error_names_the_extra(
    harness: CommandLine, home: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_run(home)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "pip install '.[mlflow]'" in refused(harness, "--mlflow", store)


@pytest.mark.parametrize("uri", ["htp://me:hunter2@127.0.0.1:9", "http://me:hunter2@{address}/?token=hunter2"])
def test_a_refused_export_shows_no_password(uri: str, harness: CommandLine, home: Path) -> None:
    ended_run(home)
    with completions_server(lambda body, number: Reply(400)) as server:
        address = server.url.removeprefix("http://").removesuffix("/v1")
        done = harness("export", "abcd", "--mlflow", uri.format(address=address))
    assert done.code == 1
    assert "hunter2" not in done.err + done.out
    assert "127.0.0.1" in done.err


def test_an_address_is_shown_without_secrets() -> None:
    assert shown_uri("https://me:p@ss@host:5/x?token=t#f") == "https://host:5/x"
    assert shown_uri("sqlite:////tmp/mlflow.db") == "sqlite:////tmp/mlflow.db"
    assert shown_uri("databricks://profile") == "databricks://profile"
