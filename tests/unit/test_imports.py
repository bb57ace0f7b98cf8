"""Each module is imported in a new process, which must not load the heavy or forbidden modules."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAVY = {"torch", "transformers", "textual", "pandas", "matplotlib", "mlflow", "harness.engine.target"}


def modules_loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


# Modules with the same expectation are imported in one process.
@pytest.mark.parametrize(
    ("modules", "forbidden"),
    [
        ("harness", HEAVY | {"pydantic", "numpy"}),
        ("harness.cli.app", HEAVY | {"pydantic", "numpy"}),
        (
            "harness.notebook.starting, harness.runs.launch, harness.submit.run_facts, harness.submit.mlflow_export",
            HEAVY
            | {"harness.audits", "harness.figures", "harness.supervisor", "harness.worker"}
            | {"jinja2", "requests", "rich", "scipy", "typer", "typst"},
        ),
        (
            "harness.cli.run, harness.cli.control, harness.cli.show, harness.cli.lists, harness.cli.runs, "
            "harness.cli.data, harness.cli.sweep, harness.cli.tune, harness.cli.compare, harness.cli.audit, "
            "harness.cli.bundle, harness.cli.export, harness.cli.new, harness.cli.doctor, harness.engine, "
            "harness.core.rounds, harness.core.attack, harness.core.scoring, harness.data.fetch, "
            "harness.tui.run_list, harness.tui.compare_state, harness.tui.guess_search, harness.tui.snapshot",
            HEAVY,
        ),
        (
            "harness.supervisor.supervisor, harness.supervisor.attack_job",
            HEAVY | {"harness.worker", "rich", "typer"},
        ),
        (
            "harness.submit.report, harness.submit.description, harness.submit.audit_export",
            (HEAVY - {"matplotlib"}) | {"harness.audits", "harness.tui", "harness.worker", "pyarrow", "typer"},
        ),
        ("harness.tui.screens.audit", (HEAVY - {"textual"}) | {"harness.audits", "harness.figures", "harness.worker"}),
        (
            "harness.worker.__main__, harness.worker.attack_job",
            HEAVY | {"harness.runs", "harness.audits", "psutil", "typer"},
        ),
        (
            "harness.audits.sequence.audit, harness.audits.sequence.inputs, "
            "harness.audits.entities.audit, harness.audits.entities.inputs, "
            "harness.audits.leakage.audit, harness.audits.leakage.inputs",
            HEAVY | {"pyarrow", "scipy", "httpx", "tokenizers"},
        ),
        ("tests.demo_target.corpus", HEAVY | {"harness.engine"}),
        ("harness.engine.resolving, harness.core.hardware", HEAVY | {"huggingface_hub"}),
    ],
)
def test_modules_do_not_load_forbidden_modules(modules, forbidden):
    assert not forbidden & modules_loaded_by(f"import {modules}")


@pytest.mark.slow
def test_loading_a_target_imports_only_core_demo_and_engine():
    loaded = modules_loaded_by("import harness.engine.loading, harness.engine.target")
    parts = {name.split(".")[1] for name in loaded if name.startswith("harness.")}
    assert "torch" in loaded
    assert parts == {"core", "demo", "engine"}
    assert not {"textual", "typer", "pandas", "matplotlib"} & loaded


def test_showing_the_parameters_of_built_in_attacks_loads_no_heavy_modules():
    run_all = "[runpy.run_path(str(attack.path)) for attack in find_attacks()]"
    loaded = modules_loaded_by(f"import runpy\nfrom harness.plugins.discovery import find_attacks\n{run_all}")
    assert "harness.rankers" in loaded
    assert not (HEAVY | {"sklearn", "scipy"}) & loaded


def test_listing_attacks_does_not_import_them():
    loaded = modules_loaded_by("from harness.plugins.discovery import find_attacks; assert len(find_attacks()) >= 3")
    assert not (HEAVY | {"attacks", "baseline", "greedy", "replay", "harness.worker", "numpy", "pydantic"}) & loaded
