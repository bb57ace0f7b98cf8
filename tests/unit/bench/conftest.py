"""The fixtures of the engine tests."""

from tests.unit.engine.conftest import folders, prefixes

__all__ = ["folders", "prefixes"]
