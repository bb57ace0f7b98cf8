"""The devices of the engine tests."""

from tests.unit.engine.conftest import device

__all__ = ["device"]
