"""The pictures of the documentation: every screen, every page and the recording of a first run."""

from tests.functional.machine import ROOT

PICTURES = ROOT / "docs" / "pictures"
