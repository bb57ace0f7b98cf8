"""`harness audit entities` on small models: findings, redaction, invalid input."""

import json
from pathlib import Path

import pytest

from tests.demo_target.classifiers import Family, fine_tune, invented_names, write_names
from tests.functional.machine import Machine

NAMES = invented_names(20)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    for family in (Family.BERT, Family.ALBERT):
        fine_tune(family, NAMES, folder / family, steps=60)
    write_names(NAMES, folder)
    return folder


def command(demo: Path) -> tuple[str, ...]:
    targets = ("--target", str(demo / "bert"), "--target", str(demo / "albert"))
    names = ("--in-train", str(demo / "in-train.txt"), "--out-train", str(demo / "out-train.txt"))
    return ("audit", "entities", *targets, *names, "--threads", "1", "--budget", "5m")


@pytest.mark.slow
def test_two_models_are_measured(machine: Machine, demo: Path) -> None:
    prompts = [f"{verb} MASK {when}?" for verb in ("Did", "Does", "Will") for when in ("come", "write", "sing")]
    (machine.folder / "prompts.txt").write_text("\n".join(prompts))
    findings = machine.json(*command(demo), "--prompts", "prompts.txt")
    assert [model["model"] for model in findings["models"]] == ["bert", "albert"]
    assert all(model["is_complete"] for model in findings["models"])
    assert machine.json("audit", "show", "latest") == findings


def test_a_redacted_page_has_no_names(machine: Machine, demo: Path) -> None:
    (machine.folder / "prompts.txt").write_text("MASK came home.\nWho is MASK?\nNobody came.\n")
    where = machine.folder / "page"
    machine.run(*command(demo), "--prompts", "prompts.txt", "--redact", "--out", str(where))
    files = [path for path in where.rglob("*") if path.is_file()]
    assert {"index.html", "m-mem-by-method.svg", "prompts.csv", "names.csv"} <= {path.name for path in files}
    content = b"\n".join(path.read_bytes() for path in files)
    assert not [name for name in (*NAMES.read, *NAMES.unread) if name.encode() in content]
    # The page does not quote the prompts of the user either.
    assert not [prompt for prompt in (b"came home", b"Who is", b"Nobody came") if prompt in content]
    figures = json.loads((where / "findings.json").read_text())
    assert "contains MASK 0 times, not once" in json.dumps(figures)


@pytest.mark.slow
def test_a_model_without_the_label_is_refused(machine: Machine, demo: Path) -> None:
    error = machine.run(*command(demo), "--label", "CITY", code=1).stderr
    assert "the model has no label 'CITY'. Its labels are O, B-PER, I-PER, B-LOC, I-LOC." in error
    assert "Traceback" not in error
