"""The plugin as kubelet sees it: gRPC over unix sockets, with an API server behind."""

import json
import os
import threading

import grpc
import pytest

from operators.driver.nodes import HostNodes
from operators.driver.proto import pluginregistration_pb2
from tests.driver.api_server import claim, device, pool_slice, result


def test_registration_tells_kubelet_name_and_socket(plugin, kubelet):
    info = kubelet.registration().GetInfo(pluginregistration_pb2.InfoRequest(), timeout=5)
    assert (info.type, info.name) == ("DRAPlugin", "gpu.gangbridge.dev")
    assert info.endpoint == str(kubelet.dra_socket)
    assert list(info.supported_versions) == ["v1.DRAPlugin"]


def test_a_refused_registration_is_accepted_as_an_answer(plugin, kubelet):
    status = pluginregistration_pb2.RegistrationStatus(plugin_registered=False, error="version")
    assert kubelet.registration().NotifyRegistrationStatus(status, timeout=5) is not None


def test_prepare_answers_with_the_devices_and_leaves_their_spec(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3", request="gpus/h100"), result("gpu-0", request="spare")))
    devices = kubelet.prepared("a")
    assert [(list(d.request_names), d.pool_name, d.device_name, list(d.cdi_device_ids)) for d in devices] == [
        (["gpus"], "k8s-gpu-0", "gpu-3", ["gangbridge.dev/gpu=uid-a-gpu-3"]),
        (["spare"], "k8s-gpu-0", "gpu-0", ["gangbridge.dev/gpu=uid-a-gpu-0"]),
    ]
    assert not devices[0].HasField("share_id")
    edits = kubelet.spec("a")["devices"][0]["containerEdits"]
    assert edits["env"] == ["GANGBRIDGE_GPU_3=k8s-gpu-0/gpu-3"]
    assert (edits["deviceNodes"][0]["path"], edits["deviceNodes"][0]["major"]) == ("/dev/fakegpu3", 1)
    assert {authorization for _, authorization in api.requests} == {"Bearer secret"}


def test_index_and_minor_come_from_the_slice(plugin, kubelet, api):
    api.slices = [pool_slice(device("gpu-0", 4, 6))]
    api.put_claim(claim("a", result("gpu-0")))
    kubelet.prepared("a")
    edits = kubelet.spec("a")["devices"][0]["containerEdits"]
    assert edits["env"] == ["GANGBRIDGE_GPU_4=k8s-gpu-0/gpu-0"]
    assert edits["deviceNodes"][0]["path"] == "/dev/fakegpu6"


def test_a_server_that_cannot_select_by_pool_serves_as_well(plugin, kubelet, api):
    api.knows_pool_selector = False
    api.slices.append(pool_slice(device("gpu-0", 7), pool="k8s-gpu-1"))
    api.put_claim(claim("a", result("gpu-0")))
    kubelet.prepared("a")
    assert kubelet.spec("a")["devices"][0]["containerEdits"]["deviceNodes"][0]["path"] == "/dev/fakegpu0"


def test_one_bad_claim_does_not_stop_its_neighbours(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-0")))
    api.put_claim(claim("c", result("gpu-2", pool="k8s-gpu-1")))
    answers = kubelet.prepare("a", "b", "c")
    assert set(answers) == {"uid-a", "uid-b", "uid-c"}
    assert answers["uid-a"].error == ""
    assert "HTTP 404" in answers["uid-b"].error
    assert "device gpu-2 is in pool k8s-gpu-1, this node is k8s-gpu-0" in answers["uid-c"].error
    assert kubelet.specs() == ["gangbridge.dev-gpu-uid-a.json"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (claim("a", result("gpu-0"), uid="another"), "was replaced: the API server has uid another"),
        (claim("a", allocated=False), "claim research/a (uid uid-a) is not allocated"),
        (claim("a", result("gpu-0"), reserved=()), "is not reserved for a pod"),
        (claim("a", result("gpu-9")), "device k8s-gpu-0/gpu-9 is in no ResourceSlice of the pool"),
    ],
)
def test_a_refused_claim_leaves_nothing(plugin, kubelet, api, given, message):
    api.put_claim(given)
    assert message in kubelet.refusal("a")
    assert kubelet.specs() == []


def test_prepare_again_gives_the_same_answer_and_writes_nothing(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3"), result("gpu-1")))
    first = kubelet.prepared("a")
    written = kubelet.spec_path("a").stat()
    assert kubelet.prepared("a") == first
    assert kubelet.spec_path("a").stat().st_ino == written.st_ino


def test_a_prepared_claim_needs_no_api_server_after_a_restart(serve, kubelet, api):
    serve()
    api.put_claim(claim("a", result("gpu-3")))
    first = kubelet.prepared("a")
    serve()
    api.stop()
    assert kubelet.prepared("a") == first
    assert "ConnectionRefusedError" in kubelet.refusal("b")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_api_server_in_trouble_is_no_verdict(plugin, kubelet, api, status):
    api.put_claim(claim("a", result("gpu-3")))
    first = kubelet.prepared("a")
    api.status = status
    assert kubelet.prepared("a") == first
    assert f"HTTP {status}: as the test wishes" in kubelet.refusal("b")


def test_a_refusing_api_server_is_a_verdict(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    api.status = 403
    assert "HTTP 403: as the test wishes" in kubelet.refusal("a")
    assert kubelet.specs() == ["gangbridge.dev-gpu-uid-a.json"]


def test_a_device_is_given_to_one_claim_only(serve, kubelet, api):
    serve()
    api.put_claim(claim("a", result("gpu-3"), result("gpu-4")))
    api.put_claim(claim("b", result("gpu-5"), result("gpu-4")))
    kubelet.prepared("a")
    refused = (
        "claim research/b (uid uid-b): device k8s-gpu-0/gpu-4 (/dev/fakegpu4) is already prepared for "
        f"claim research/a (uid uid-a), spec {kubelet.spec_path('a')}"
    )
    assert kubelet.refusal("b") == refused
    serve()
    assert kubelet.refusal("b") == refused
    assert kubelet.specs() == ["gangbridge.dev-gpu-uid-a.json"]
    kubelet.unprepare("a")
    assert [d.device_name for d in kubelet.prepared("b")] == ["gpu-5", "gpu-4"]


def test_a_new_name_does_not_free_a_held_device(serve, kubelet, api):
    serve()
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    api.slices = [pool_slice(device("h100-3", 3), generation=2)]
    api.put_claim(claim("b", result("h100-3")))
    assert "device k8s-gpu-0/h100-3 (/dev/fakegpu3) is already prepared" in kubelet.refusal("b")


def test_a_new_index_does_not_free_a_held_name(serve, kubelet, api):
    serve()
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    api.slices = [pool_slice(device("gpu-3", 5), generation=2)]
    serve()
    api.put_claim(claim("b", result("gpu-3")))
    assert "device k8s-gpu-0/gpu-3 (/dev/fakegpu5) is already prepared" in kubelet.refusal("b")


def test_a_claim_of_the_same_name_is_another_claim(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3"), uid="first"))
    assert kubelet.prepare(a="first")["first"].error == ""
    api.put_claim(claim("a", result("gpu-3"), uid="second"))
    assert "is already prepared for claim research/a (uid first)" in kubelet.prepare(a="second")["second"].error
    assert kubelet.unprepare(a="first")["first"].error == ""
    assert kubelet.prepare(a="second")["second"].error == ""


def test_an_allocation_that_changed_under_a_prepared_claim_is_refused(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    api.put_claim(claim("a", result("gpu-4")))
    assert (
        "is prepared with k8s-gpu-0/gpu-3 and now allocates k8s-gpu-0/gpu-4: it must be unprepared first"
        in kubelet.refusal("a")
    )
    kubelet.unprepare("a")
    assert [d.device_name for d in kubelet.prepared("a")] == ["gpu-4"]


def test_unprepare_asks_nobody_and_succeeds_for_unknown_claims(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    api.stop()
    answers = kubelet.unprepare("a", "never-seen")
    assert {uid: answer.error for uid, answer in answers.items()} == {"uid-a": "", "uid-never-seen": ""}
    assert kubelet.specs() == []
    assert kubelet.unprepare("a")["uid-a"].error == ""


def test_a_reboot_empties_the_folder_and_prepare_fills_it_again(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3")))
    first = kubelet.prepared("a")
    kubelet.spec_path("a").unlink()
    assert kubelet.prepared("a") == first
    assert kubelet.spec_path("a").exists()


def test_a_late_prepare_does_not_undo_an_unprepare(plugin, kubelet, api):
    api.put_claim(claim("a", result("gpu-3")))
    api.hold.clear()
    errors = []
    late = threading.Thread(target=lambda: errors.append(kubelet.refusal("a")))
    late.start()
    assert api.held.wait(5)
    assert kubelet.unprepare("a")["uid-a"].error == ""
    api.hold.set()
    late.join(10)
    assert errors == ["claim research/a (uid uid-a) was unprepared or asked for again meanwhile"]
    assert kubelet.specs() == []


def test_two_claims_racing_for_a_device_get_one_winner(plugin, kubelet, api):
    names = [f"c{n}" for n in range(6)]
    for name in names:
        api.put_claim(claim(name, result("gpu-3")))
    answers = {}
    threads = [threading.Thread(target=lambda name=name: answers.update(dict(kubelet.prepare(name)))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    won = [uid for uid, answer in answers.items() if not answer.error]
    assert len(answers) == 6
    assert len(won) == 1
    assert kubelet.specs() == [f"gangbridge.dev-gpu-{won[0]}.json"]


def test_the_hosts_device_nodes_are_used_when_no_number_is_given(serve, kubelet, api):
    folder = kubelet.cdi.parent
    (folder / "gpu1").symlink_to("/dev/null")
    (folder / "gpu2").write_text("no device")
    serve(host=HostNodes(root=f"{folder}/gpu", common=("/dev/zero",)))
    for name, gpu in (("a", "gpu-1"), ("b", "gpu-2"), ("c", "gpu-3")):
        api.put_claim(claim(name, result(gpu)))
    kubelet.prepared("a")
    spec = kubelet.spec("a")
    node = spec["devices"][0]["containerEdits"]["deviceNodes"][0]
    assert (node["path"], node["major"], node["minor"]) == (f"{folder}/gpu1", 1, 3)
    assert [node["path"] for node in spec["containerEdits"]["deviceNodes"]] == ["/dev/zero"]
    assert kubelet.refusal("b") == f"device node {folder}/gpu2 of GPU index 2 is not a character device"
    assert (
        kubelet.refusal("c")
        == f"device node {folder}/gpu3 of GPU index 3 cannot be read on this host: No such file or directory"
    )


def test_a_full_disk_is_an_error_and_no_half_spec(plugin, kubelet, api, monkeypatch):
    api.put_claim(claim("a", result("gpu-3")))

    def full(_handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert "No space left on device" in kubelet.refusal("a")
    assert kubelet.specs() == []
    assert kubelet.prepared("a")


def test_a_half_written_spec_is_ignored_and_swept(serve, kubelet, api):
    kubelet.cdi.mkdir()
    partial = kubelet.cdi / "gangbridge.dev-gpu-uid-b.partial"
    partial.write_text('{"cdiVersion": "0.6.0", "kind": "gangbr')
    serve()
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    assert not partial.exists()


def test_a_broken_spec_stops_others_until_its_claim_repairs_or_ends_it(plugin, kubelet, api):
    for name, gpu in (("a", "gpu-3"), ("b", "gpu-4")):
        api.put_claim(claim(name, result(gpu)))
    kubelet.prepared("a")
    whole = kubelet.spec("a")
    kubelet.spec_path("a").write_text(json.dumps(whole)[:100])
    assert f"cannot tell which devices the spec {kubelet.spec_path('a')} gave away" in kubelet.refusal("b")
    kubelet.prepared("a")
    assert kubelet.spec("a") == whole
    kubelet.prepared("b")
    kubelet.spec_path("a").write_text("")
    kubelet.unprepare("a")
    assert kubelet.specs() == ["gangbridge.dev-gpu-uid-b.json"]


def test_specs_of_other_vendors_are_none_of_our_business(plugin, kubelet, api):
    (kubelet.cdi / "nvidia.com-gpu.json").write_text("{")
    api.put_claim(claim("a", result("gpu-3")))
    kubelet.prepared("a")
    kubelet.unprepare("a")
    assert kubelet.specs() == ["nvidia.com-gpu.json"]


def test_a_strange_uid_is_an_error_for_that_claim(plugin, kubelet):
    answer = kubelet.unprepare(a="../x")["../x"]
    assert answer.error == "claim research/a: uid '../x' is not a Kubernetes uid"


def test_stopping_takes_the_sockets_away(plugin, kubelet):
    assert plugin.present()
    plugin.stop(1)
    assert not kubelet.dra_socket.exists()
    assert not kubelet.registration_socket.exists()
    assert not plugin.present()
    with pytest.raises(grpc.RpcError):
        kubelet.prepare("a", timeout=1)
