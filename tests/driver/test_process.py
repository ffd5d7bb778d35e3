"""The process itself: options, signals, SIGKILL, and sockets that somebody removes."""

import signal
import subprocess
import sys
import time

import grpc
import pytest

from operators.driver.proto import pluginregistration_pb2
from tests.driver.api_server import claim, result


@pytest.fixture
def run(api, kubelet, tmp_path):
    running = []
    kubeconfig = api.kubeconfig(tmp_path)

    def start(*more):
        command = [sys.executable, "-m", "operators.driver", "--node", "k8s-gpu-0", "--kubeconfig", str(kubeconfig)]
        command += ["--kubelet-dir", str(kubelet.folder), "--cdi-dir", str(kubelet.cdi)]
        command += ["--device-root", "/dev/fakegpu", "--device-number", "1:3", *more]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def _until_registered(kubelet):
    deadline = time.monotonic() + 20
    while True:
        try:
            return kubelet.registration().GetInfo(pluginregistration_pb2.InfoRequest(), timeout=1)
        except grpc.RpcError:
            assert time.monotonic() < deadline, "the plugin does not answer"
            time.sleep(0.05)


def test_a_killed_plugin_comes_back_with_its_journal(run, kubelet, api):
    first = run()
    _until_registered(kubelet)
    api.put_claim(claim("a", result("gpu-3")))
    api.put_claim(claim("b", result("gpu-3")))
    prepared = kubelet.prepared("a")
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert kubelet.dra_socket.exists()

    second = run()
    _until_registered(kubelet)
    assert kubelet.prepared("a") == prepared
    assert "is already prepared for claim research/a" in kubelet.refusal("b")
    api.stop()
    assert kubelet.unprepare("a")["uid-a"].error == ""
    second.terminate()
    _, log = second.communicate(timeout=10)
    assert second.returncode == 0
    assert '"event": "claim_unprepared"' in log
    assert not kubelet.registration_socket.exists()


def test_removed_sockets_are_made_again(run, kubelet):
    run()
    _until_registered(kubelet)
    kubelet.registration_socket.unlink()
    _until_registered(kubelet)


@pytest.mark.parametrize("number", ["195", "195:0:1", "a:b", "-1:3"])
def test_a_bad_device_number_is_refused(run, number):
    process = run(f"--device-number={number}")
    _, log = process.communicate(timeout=20)
    assert process.returncode == 1
    assert f"--device-number '{number}' is not MAJOR:MINOR" in log
