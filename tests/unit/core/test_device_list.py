"""The devices that share a run."""

import pytest

from harness.core.device_list import DeviceList


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("all", DeviceList()),
        ("cpu:2", DeviceList(cpu_workers=2)),
        ("0,3", DeviceList(gpus=(0, 3))),
    ],
)
def test_devices_are_written_as_they_are_read(text: str, devices: DeviceList) -> None:
    assert DeviceList.parse(text) == devices and str(devices) == text


@pytest.mark.parametrize(
    "text", ["", "two", "cpu", "cpu:", "cpu:0", "cpu:1000", "0,", "0,0", "0,00", "0 1", "-1", "all,0"]
)
def test_other_texts_name_no_devices(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown devices|names a GPU twice"):
        DeviceList.parse(text)
