"""The project has no public address and is on no package index, so it prints none that somebody else could register."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.machine import ROOT

TEXTS = {"", ".cff", ".css", ".html", ".in", ".ipynb", ".j2", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}
FOLDERS = (".ci", ".github", "attacks", "docs", "harness", "submissions", "tests")
HOSTS = {
    "ai.google.dev", "docs.pydantic.dev", "docs.ray.io", "download.pytorch.org", "git-lfs.github.com",
    "keepachangelog.com", "pre-commit.com", "semver.org",
    "www.apache.org", "www.contributor-covenant.org", "www.w3.org",
}  # fmt: skip
"""The sites that the texts name. Add one only after you opened it."""
REPOSITORIES = {
    f"github.com/{owner}"
    for owner in ("containers", "EleutherAI", "facebookresearch", "google-research", "locuslab", "NVIDIA")
} | {"raw.githubusercontent.com/ethz-privsec", "raw.githubusercontent.com/google-research"}
"""Their owners on GitHub, where anybody can register a free name."""
BY_NAME = re.compile(
    r"\b(?:pip|pipx|uvx?|conda|mamba)\b[^\n`]*[ '\"=]extraction[-_]harness(?![-_]\d)"  # an installation by name
    r"|[\"']extraction-harness\["  # a dependency
    r"|(?:pypi\.org|anaconda\.org|readthedocs\.\w+|github\.(?:com|io))\S*extraction-harness|extraction-harness\.\w"
)


def texts() -> Iterator[tuple[str, str]]:
    """Yield the path and the content of each file of text in the clone."""
    files = [*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in files:
        if path.is_file() and path.suffix in TEXTS and path != Path(__file__) and "__pycache__" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace")


def by_name(text: str) -> list[str]:
    """Return what asks somebody for the project by a name or an address that it does not own."""
    return BY_NAME.findall(text)


def foreign_addresses(text: str) -> list[str]:
    """Return the addresses whose site nobody has checked."""
    found = re.findall(r"https?://((?:[\w-]+\.)+[a-z]+)(/[\w-]+)?", text)
    return [host + path for host, path in found if host not in HOSTS and host + path not in REPOSITORIES]


def test_no_text_asks_for_the_project_by_a_name_that_it_does_not_own() -> None:
    assert {path: found for path, text in texts() if (found := by_name(text))} == {}


def test_every_address_leads_to_a_known_site() -> None:
    found = {path: foreign_addresses(text) for path, text in texts() if not path.startswith("tests/")}
    assert {path: addresses for path, addresses in found.items() if addresses} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'extraction-harness[torch]'",
        "pip install --force-reinstall --no-deps extraction-harness",
        "uvx extraction-harness demo",
        "uvx 'extraction-harness[torch]' demo",
        "conda install extraction-harness pytorch",
        'dependencies = ["extraction-harness[torch]"]',
        "https://pypi.org/p/extraction-harness",
        "see extraction-harness.github" + ".io/extraction-harness/index.html",
    ],
)
def test_a_name_that_anybody_could_register_is_found(text: str) -> None:
    assert by_name(text)


def test_an_address_that_nobody_has_checked_is_found() -> None:
    text = "see https://github.com/nobody/x, <https://a-new-site.org/y> and http://127.0.0.1:80/z or http://localhost/"
    assert foreign_addresses(text) == ["github.com/nobody", "a-new-site.org/y"]


def test_a_clone_and_a_wheel_are_no_names_on_an_index() -> None:
    assert by_name("uvx --from . harness demo; pip install '.[torch]' extraction_harness-0.1.0-py3-none-any.whl") == []
