"""The blocks of the tutorials and of the page of figures run in order, and print what the pages show."""

from pathlib import Path

import pytest

from tests.functional.machine import ROOT, kill_processes_that_name
from tests.functional.walkthrough import require_output, steps_in, walk_through

TUTORIALS = [
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    ROOT / "docs" / "development" / "sources.md",
]
EVERY_TIME = "make-a-round"
"""The tutorial that `make check` follows; `make test-long` follows all."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.stem == EVERY_TIME else pytest.mark.long, id=page.stem) for page in TUTORIALS],
)
def test_a_tutorial(tmp_path: Path, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    try:
        printed = walk_through(text, tmp_path)
    finally:
        kill_processes_that_name(str(tmp_path))
    for step, output in zip(steps_in(text), printed, strict=True):
        for shown in step.outputs:
            require_output(shown, output.replace(str(tmp_path), "~"))


@pytest.mark.parametrize("page", [page for page in TUTORIALS if page.parent.name == "tutorials"], ids=lambda p: p.stem)
def test_a_tutorial_names_its_directory_and_begins_with_a_command(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "clone, with `harness` on your path" in " ".join(text.split())
    first, *_ = steps_in(text)
    in_clone = page.stem == "what-did-a-fine-tune-learn"
    assert first.script.startswith("python -m tests." if in_clone else "mkdir -p ~/try && cd ~/try\nharness ")


PAGE = """
```toml
# sub/team.toml
name = "x"
```

```sh
cat sub/team.toml
echo 'abcd-greedy took 0:07' 'recall 0.301, 12 % more'
```

```text
name = "x"
efgh-greedy took 1:15 recall 0.310, 11.5 % ...
```
"""


OUTPUT = """# sub/team.toml
name = "x"
abcd-greedy took 0:07 recall 0.301, 12 % more
"""


def test_the_runner_compares_what_a_page_shows(tmp_path: Path) -> None:
    file, commands = steps_in(PAGE)
    assert walk_through(PAGE, tmp_path) == ["", OUTPUT]
    assert file.outputs == ()
    (shown,) = commands.outputs
    require_output(shown, OUTPUT)
    for wrong in (shown.replace("took", "needed"), shown.replace("0.310", "0.350"), shown.replace("11.5", "20")):
        with pytest.raises(AssertionError, match=r"the page shows|on the page, .* printed"):
            require_output(wrong, OUTPUT)
    with pytest.raises(AssertionError, match="No such file"):
        walk_through("```sh\ncat absent\n```\n", tmp_path / "other")
