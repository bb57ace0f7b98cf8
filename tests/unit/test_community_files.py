"""CONTRIBUTING, the templates and the workflows: valid, and true of this repository."""

import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from harness import __version__
from tests.functional.machine import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE" / "config.yml"})
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "docs/how-to/use-the-tui.md")
BIN = Path(sys.executable).parent


def run(program: str, *arguments: str | Path) -> None:
    """Run a program of the test tools. It must find nothing."""
    done = subprocess.run([BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def used_targets(text: str) -> set[str]:
    """Return the targets in commands such as `make TORCH=cpu install-dev`."""
    commands = re.findall(r"(?:^ *|run: |`|entry: )make ([^`\n]*)", text, re.MULTILINE)
    words = [word for command in commands for word in takewhile(lambda word: word != "#", command.split())]
    return {word for word in words if re.fullmatch(r"[a-z-]+", word)}


def test_workflows_have_no_errors() -> None:
    assert WORKFLOWS
    run("actionlint", *WORKFLOWS)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
        ("dependabot", [GITHUB / "dependabot.yml"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_follow_their_schema(schema: str, files: list[Path]) -> None:
    assert files
    run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)


def test_dependabot_names_directories_that_exist() -> None:
    named = re.findall(r"directory: /(\S*)", (GITHUB / "dependabot.yml").read_text(encoding="utf-8"))
    assert named and all((ROOT / name).is_dir() for name in named)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_small_permissions_and_pinned_actions(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text())
    assert content["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in content["jobs"].values())
    assert all("timeout-minutes" in job for job in content["jobs"].values())
    used = [step["uses"] for job in content["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"[\w./-]+@v\d[\d.]*", action) for action in used)


@pytest.mark.parametrize("file", ["CONTRIBUTING.md", *WORKFLOWS, ".pre-commit-config.yaml"], ids=str)
def test_named_make_targets_exist(file: str | Path) -> None:
    assert used_targets((ROOT / file).read_text(encoding="utf-8")) <= make_targets()


def test_docker_receives_what_the_dockerfile_copies_and_runs_no_program_as_root() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    steps = [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines())]
    copied = {source for word, rest in steps if word == "COPY" for source in rest.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines and {line[1:] for line in lines if line.startswith("!")} == copied
    (user,) = (rest for word, rest in steps if word == "USER")
    assert user != "root" and [word for word, _ in steps if word in ("USER", "ENTRYPOINT")] == ["USER", "ENTRYPOINT"]


def test_the_workflow_tests_every_supported_python() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())
    content = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())
    (oldest,) = re.findall(r"^python:(3\.\d+)-", content["jobs"]["full"]["container"]["image"])
    assert classifiers == [oldest, *content["jobs"]["fast"]["strategy"]["matrix"]["python"]]


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_and_paths_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    missing = [link for link in links if not ((ROOT / page).parent / link).exists()]
    invented = ("harness/audits/surprise.py", "harness/cli/hello.py")
    paths = re.findall(r"`((?:attacks|harness|tests|docs)/[\w./-]*)`", text)
    missing += [
        path for path in paths if not path.startswith((*invented, "attacks/mine")) and not (ROOT / path).exists()
    ]
    assert not missing


def test_every_claim_of_the_security_policy_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    claims = re.findall(r"^- \*\*(.*?)\.\*\*", text, re.MULTILINE)
    rows = dict(re.findall(r"^\| (?!claim|-)(.*?) \| (.*) \|$", text, re.MULTILINE))
    assert len(claims) == 6 and [claim for claim in claims if not any(row.startswith(claim) for row in rows)] == []
    for claim, cell in rows.items():
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", cell)
        assert tests, claim
        for file, name in tests:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), name


def test_the_version_is_the_same_everywhere() -> None:
    def first_in(file: str, pattern: str) -> str:
        return re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)[0]

    def printed_by(*command: str) -> str:
        done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert {
        "CITATION.cff": yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"],
        "CHANGELOG.md": first_in("CHANGELOG.md", r"^## (\d\S*)"),
        "README.md": first_in("README.md", r"version = \{(.*)\}"),
        "pyproject.toml": printed_by("hatchling", "version"),
        "harness": printed_by("harness", "--version"),
    } == dict.fromkeys(("CITATION.cff", "CHANGELOG.md", "README.md", "pyproject.toml", "harness"), __version__)
