import pytest

from bridge.errors import ParseError
from operators.driver.cdi import PreparedClaim, PreparedDevice, device_id, prepared_of, spec_of
from operators.driver.claims import Allotment, ClaimRef
from operators.driver.nodes import DeviceNode

REF = ClaimRef(namespace="research", name="a", uid="5d1f")


def _device(index, number):
    return PreparedDevice(
        allotment=Allotment(request="gpus", pool="k8s-gpu-0", device=f"gpu-{index}"),
        index=index,
        node=DeviceNode(path=f"/dev/nvidia{number}", major=195, minor=number),
    )


PREPARED = PreparedClaim(
    claim=REF,
    devices=(_device(3, 5), _device(0, 2)),
    shared=(DeviceNode(path="/dev/nvidiactl", major=195, minor=255),),
)


def test_a_spec_injects_each_device_by_itself():
    spec = spec_of(PREPARED)
    assert spec["cdiVersion"] == "0.6.0"
    assert spec["kind"] == "gangbridge.dev/gpu"
    first = spec["devices"][0]
    assert first["name"] == "5d1f-gpu-3"
    assert device_id(REF, "gpu-3") == "gangbridge.dev/gpu=5d1f-gpu-3"
    assert first["containerEdits"] == {
        "env": ["GANGBRIDGE_GPU_3=k8s-gpu-0/gpu-3"],
        "deviceNodes": [
            {"path": "/dev/nvidia5", "type": "c", "major": 195, "minor": 5, "fileMode": 0o666, "permissions": "rw"}
        ],
    }
    assert spec["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert [node["path"] for node in spec["containerEdits"]["deviceNodes"]] == ["/dev/nvidiactl"]


def test_specs_of_several_claims_set_a_variable_alike_or_not_at_all():
    def variables(prepared):
        spec = spec_of(prepared)
        edits = [spec["containerEdits"], *(device["containerEdits"] for device in spec["devices"])]
        return dict(line.split("=", 1) for edit in edits for line in edit["env"])

    one = variables(PreparedClaim(claim=REF, devices=(_device(0, 0), _device(1, 1))))
    two = variables(PreparedClaim(claim=REF, devices=(_device(2, 2),)))
    merged = {**one, **two}
    assert all(merged[name] == value for name, value in one.items())
    assert {name for name in merged if name.startswith("GANGBRIDGE_GPU_")} == {f"GANGBRIDGE_GPU_{n}" for n in range(3)}


def test_a_spec_tells_what_was_prepared():
    assert prepared_of(spec_of(PREPARED)) == PREPARED


@pytest.mark.parametrize("damage", ["annotations", "devices", "containerEdits"])
def test_a_foreign_spec_is_refused(damage):
    spec = spec_of(PREPARED)
    del spec[damage]
    with pytest.raises(ParseError, match=f"not a CDI spec of gangbridge.dev/gpu .KeyError.'{damage}'"):
        prepared_of(spec)
