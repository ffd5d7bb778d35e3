from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge import wellknown
from bridge.model.kube import PoolDevice
from bridge.model.slurm import JobState, SlurmJob
from operators.kube.mirrors import build_mirror_job
from operators.kube.slices import build_device_class, build_slices, device_name


def devices(count: int) -> list[PoolDevice]:
    return [PoolDevice(name=device_name(index), index=index, type="h100", socket=0) for index in range(count)]


def test_slice_of_a_node() -> None:
    unsorted = [PoolDevice(name="gpu-10", index=10), PoolDevice(name="gpu-2", index=2, type="h100", socket=1)]
    (found,) = build_slices(kube_node="k8s-0", slurm_node="gpu0", devices=unsorted, generation=3, node_uid="nu")
    only = {"key": "metadata.name", "operator": "In", "values": ["k8s-0"]}
    assert found["spec"] == {
        "driver": wellknown.DRIVER,
        "pool": {"name": "k8s-0", "generation": 3, "resourceSliceCount": 1},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        "devices": [
            {
                "name": "gpu-2",
                "attributes": {
                    "slurmNode": {"string": "gpu0"},
                    "index": {"int": 2},
                    "type": {"string": "h100"},
                    "socket": {"int": 1},
                },
            },
            {"name": "gpu-10", "attributes": {"slurmNode": {"string": "gpu0"}, "index": {"int": 10}}},
        ],
    }
    assert "nodeName" not in found["spec"], "kubelet deletes those"
    assert found["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "k8s-0", "uid": "nu"}]


@given(count=st.integers(0, 400), generation=st.integers(1, 9))
def test_slices_hold_every_device_once(count: int, generation: int) -> None:
    found = build_slices(kube_node="n", slurm_node="s", devices=devices(count), generation=generation)
    assert all(len(part["spec"]["devices"]) <= 128 for part in found)
    names = [device["name"] for part in found for device in part["spec"]["devices"]]
    assert names == [device.name for device in devices(count)]
    pools = {(part["spec"]["pool"]["generation"], part["spec"]["pool"]["resourceSliceCount"]) for part in found}
    assert pools == {(generation, len(found))}
    assert len({part["metadata"]["name"] for part in found}) == len(found) == max(1, -(-count // 128))


def test_slices_keep_their_names_over_generations() -> None:
    first = build_slices(kube_node="n", slurm_node="s", devices=devices(8), generation=1)
    second = build_slices(kube_node="n", slurm_node="s", devices=devices(8), generation=2)
    assert first[0]["metadata"]["name"] == second[0]["metadata"]["name"]


def test_device_class_selects_the_driver() -> None:
    (selector,) = build_device_class()["spec"]["selectors"]
    assert selector["cel"]["expression"] == 'device.driver == "gpu.gangbridge.dev"'


def test_mirror_of_an_sbatch_job() -> None:
    job = SlurmJob(job_id=4711, state=JobState.RUNNING, user="alice", partition="gpu", submit_time=17)
    mirror = build_mirror_job(job, "abc")
    meta = mirror["metadata"]
    assert (meta["name"], meta["namespace"]) == ("slurm-4711", wellknown.MIRROR_NAMESPACE)
    assert meta["annotations"] == {"gangbridge.dev/digest": "abc", "gangbridge.dev/submit-time": "17"}
    assert mirror["spec"] == {"origin": "Slurm", "queue": "gpu"}
