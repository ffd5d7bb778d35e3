from __future__ import annotations

from dataclasses import replace

from bridge.lifecycle.actions import PublishPool, TaintNode
from bridge.lifecycle.inventory import inventory
from bridge.model.fleet import DeviceMapping
from bridge.model.gres import Gres
from bridge.model.kube import PoolDevice
from tests.builders import VENDOR, fleet, gpus, kube_node, node, pool, snapshot


def test_a_node_without_a_pool_is_published_once_with_every_tracked_device():
    bare = snapshot([node("n1", count=2, sockets={0: 1})], pools=())
    (published,) = inventory(bare)
    assert published == PublishPool(
        kube_node="n1",
        slurm_node="n1",
        generation=1,
        devices=(
            PoolDevice(name="gpu-0", index=0, type="h100", socket=1),
            PoolDevice(name="gpu-1", index=1, type="h100"),
        ),
    )
    shown = replace(pool("n1"), devices=published.devices)
    assert inventory(replace(bare, pools=(shown,))) == []


def test_the_generation_rises_with_a_change_and_only_then():
    shown = pool("n1", count=8, generation=4)
    assert inventory(snapshot([node("n1")], pools=(shown,))) == []
    (published,) = inventory(snapshot([node("n1", count=4)], pools=(shown,)))
    assert published.generation == 5
    assert len(published.devices) == 4


def test_nothing_is_ever_unpublished():
    """A node whose GPUs Slurm no longer tracks may have devices in use."""
    for gres in ((), (Gres(name="gpu", type="h100", count=8),)):
        assert inventory(snapshot([node("n1", gres=gres)], pools=(pool("n1"),))) == []


def test_devices_of_a_vendor_driver_are_never_published():
    assert inventory(snapshot([node("n1")], pools=(), fleet=fleet(driver=VENDOR))) == []
    assert inventory(snapshot([node("n1")], pools=(pool("n1", driver=VENDOR),), fleet=fleet(driver=VENDOR))) == []


def test_of_a_mixed_node_only_our_own_drivers_devices_are_published():
    spec = fleet()
    spec = replace(spec, devices=(*spec.devices, DeviceMapping(gres="gpu:a100", driver=VENDOR, device_class="v")))
    mixed = node("n1", gres=(*gpus([0]), *gpus([1], "a100")))
    (published,) = inventory(snapshot([mixed], pools=(), fleet=spec))
    assert [device.index for device in published.devices] == [0]


def test_a_managed_node_is_tainted_once():
    nodes = (kube_node("n1", tainted=False), kube_node("n2"))
    assert inventory(snapshot([node("n1"), node("n2")], nodes=nodes)) == [TaintNode(kube_node="n1")]


def test_a_node_that_slurm_does_not_know_is_left_alone():
    assert inventory(snapshot([], nodes=(kube_node("n1", tainted=False),))) == []


def test_nothing_is_published_while_slurm_or_the_fleet_is_unknown():
    untainted = (kube_node("n1", tainted=False),)
    assert inventory(snapshot([node("n1")], silent=True, pools=(), nodes=untainted)) == []
    assert inventory(snapshot([node("n1")], fleet=None, pools=(), nodes=untainted)) == []
