"""The settings file: defaults, values, and errors that name the file and the line."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.settings import Settings, read_settings, settings_file


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path))
    assert settings_file() == tmp_path / "config.toml"
    return settings_file()


def test_without_a_file_the_settings_have_defaults() -> None:
    assert read_settings() == Settings(theme=None, round="demo", device="auto", on_finish=[])


def test_every_setting_is_read(file: Path) -> None:
    file.write_text('theme = "nord"\nround = "dev"\ndevice = "cpu"\non_finish = ["notify-send", "done"]\n')
    assert read_settings() == Settings(theme="nord", round="dev", device="cpu", on_finish=["notify-send", "done"])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('round = "demo"\ntheme = = 5\n', 2, "Invalid value"),
        ("\n\n theme = 5\n", 3, "theme: must be text"),
        ('round = "x"\ncolour = "red"\n', 2, "colour: unknown field"),
        ('theme = "nord"\n\non_finish = "notify-send done"\n', 3, "on_finish: must be a list in brackets"),
        ('on_finish = [\n  "a",\n  5,\n]\n', 1, "on_finish.1: must be text"),
        ('theme = "nord"\n[round]\nx = 1\n', 2, "round: must be text"),
        ('"col\\nour" = 1\n', 1, "unknown field"),
    ],
)
def test_an_error_names_the_file_and_the_line(file: Path, text: str, line: int, reason: str) -> None:
    file.write_text(text)
    with pytest.raises(HarnessError) as raised:
        read_settings()
    message = str(raised.value)
    assert message.startswith(str(file)) and f"line {line}" in message and reason in message


def test_an_unreadable_file_is_named(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(HarnessError, match=str(file)):
        read_settings()
