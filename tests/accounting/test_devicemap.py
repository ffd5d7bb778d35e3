from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.accounting.devicemap import build_device_map, tracked_types
from bridge.model.fleet import DeviceMapping
from bridge.model.gres import Gres
from bridge.model.kube import Device, PoolDevice
from bridge.wellknown import DRIVER
from tests.builders import VENDOR, fleet, gpus, node, pool


def test_every_tracked_index_gets_its_device_type_and_class():
    found, problem = build_device_map(node("n1", count=2), "n1", fleet(), [pool("n1", count=2)])
    assert problem == ""
    assert found.devices == {index: Device(driver=DRIVER, pool="n1", device=f"gpu-{index}") for index in (0, 1)}
    assert found.types == {0: "h100", 1: "h100"}
    assert found.classes == {0: DRIVER, 1: DRIVER}


def test_devices_are_matched_by_index_and_not_by_name_or_place():
    shuffled = replace(
        pool("n1", count=0), devices=(PoolDevice(name="b", index=1, type="h100"), PoolDevice(name="a", index=0))
    )
    found, _ = build_device_map(node("n1", count=2), "n1", fleet(), [shuffled])
    assert [found.devices[index].device for index in (0, 1)] == ["a", "b"]


def test_resolving_keeps_the_order_and_refuses_an_unknown_index():
    found, _ = build_device_map(node("n1", count=3), "n1", fleet(), [pool("n1", count=3)])
    assert [device.device for device in found.resolve([2, 0])] == ["gpu-2", "gpu-0"]
    assert found.resolve([0, 3]) is None
    assert found.resolve([]) == ()


@pytest.mark.parametrize(
    ("slurm", "pools", "words"),
    [
        pytest.param(node("n1", gres=()), [pool("n1")], "tracks no GPU", id="no gpus"),
        pytest.param(
            node("n1", gres=(Gres(name="gpu", type="h100", count=8),)), [pool("n1")], "File=", id="count only"
        ),
        pytest.param(node("n1", gres=gpus(range(2), "a100")), [pool("n1")], "gpu:a100", id="type not mapped"),
        pytest.param(node("n1"), [], f"no complete pool of {DRIVER}", id="no pool"),
        pytest.param(node("n1"), [pool("n2")], "no complete pool", id="another node's pool"),
        pytest.param(node("n1"), [pool("n1", driver=VENDOR)], "no complete pool", id="another driver's pool"),
        pytest.param(node("n1", count=3), [pool("n1", count=2)], "0 devices of pool n1 say index 2", id="hole"),
        pytest.param(
            node("n1", count=1),
            [replace(pool("n1", count=0), devices=tuple(PoolDevice(name=name, index=0) for name in "ab"))],
            "2 devices of pool n1 say index 0",
            id="two devices of one index",
        ),
        pytest.param(
            node("n1", count=1),
            [replace(pool("n1", count=0), devices=(PoolDevice(name="a", index=0, type="a100"),))],
            "index 0 of type h100",
            id="another type",
        ),
    ],
)
def test_a_node_that_is_not_wholly_mapped_is_not_mapped_and_says_why(slurm, pools, words):
    found, problem = build_device_map(slurm, "n1", fleet(), pools)
    assert found is None
    assert words in problem


def test_each_type_goes_to_the_driver_that_the_fleet_names():
    spec = replace(
        fleet(),
        devices=(*fleet().devices, DeviceMapping(gres="gpu:a100", driver=VENDOR, device_class="vendor-class")),
    )
    mixed = node("n1", gres=(*gpus([0]), *gpus([1], "a100")))
    vendor = replace(pool("n1", count=0, driver=VENDOR), name="v", devices=(PoolDevice(name="x", index=1),))
    found, _ = build_device_map(mixed, "n1", spec, [pool("n1", count=1), vendor])
    assert found.devices[1] == Device(driver=VENDOR, pool="v", device="x")
    assert found.classes == {0: DRIVER, 1: "vendor-class"}


def test_other_gres_than_gpus_are_not_tracked_as_gpus():
    assert tracked_types(node("n1", gres=(*gpus([0, 1]), Gres(name="fpga", count=1, indices=(0,))))) == {
        0: "h100",
        1: "h100",
    }


def test_a_list_that_slurm_cut_short_is_not_tracked():
    assert tracked_types(node("n1", gres=(Gres(name="gpu", type="h100", count=8, indices=(0, 1)),))) == {}
