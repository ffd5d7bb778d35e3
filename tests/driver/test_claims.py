import pytest

from operators.driver.claims import Allotment, ClaimRef, allotments
from operators.driver.errors import ClaimRefused
from tests.driver.api_server import POD, claim, result

REF = ClaimRef(namespace="research", name="a", uid="uid-a")


def test_only_our_results_in_the_order_of_the_allocation():
    given = claim(
        "a",
        result("gpu-5", request="gpus/h100"),
        result("mlx0", driver="net.example.com", pool="elsewhere"),
        result("gpu-2", request="other"),
    )
    assert allotments(given, REF, node="k8s-gpu-0") == (
        Allotment(request="gpus", pool="k8s-gpu-0", device="gpu-5"),
        Allotment(request="other", pool="k8s-gpu-0", device="gpu-2"),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            claim("a", result("gpu-0"), uid="uid-b"),
            r"claim research/a \(uid uid-a\) was replaced: the API server has uid uid-b",
        ),
        ({"metadata": {"uid": "uid-a"}}, r"claim research/a \(uid uid-a\) is not allocated"),
        (claim("a", allocated=False), "is not allocated"),
        (claim("a", result("gpu-0"), reserved=()), "is not reserved for a pod: status.reservedFor has no entry"),
        (
            claim(
                "a",
                result("gpu-0"),
                reserved=({"apiGroup": "gangbridge.dev", "resource": "gangjobs", "name": "m", "uid": "u"},),
            ),
            "is not reserved for a pod: status.reservedFor has gangjobs/m",
        ),
        (
            claim("a", result("gpu-0"), reserved=({**POD, "apiGroup": "example.com"},)),
            "is not reserved for a pod: status.reservedFor has pods/llm-0",
        ),
        (
            claim("a", result("x", driver="net.example.com")),
            r"has no device of driver gpu\.gangbridge\.dev in its 1 allocation results",
        ),
        (
            claim("a", result("gpu-0"), result("gpu-1", pool="k8s-gpu-1")),
            r"results\[1\]: device gpu-1 is in pool k8s-gpu-1, this node is k8s-gpu-0",
        ),
        (claim("a", result("gpu-0", adminAccess=True)), r"results\[0\]: adminAccess is set"),
        (claim("a", result("gpu-0", shareID="1f")), r"results\[0\]: shareID is set"),
        (claim("a", result("gpu-0"), result("gpu-0")), "lists the device k8s-gpu-0/gpu-0 2 times"),
    ],
)
def test_refusals_name_the_reason(given, message):
    with pytest.raises(ClaimRefused, match=message):
        allotments(given, REF, node="k8s-gpu-0")


@pytest.mark.parametrize("uid", ["", "../../etc/passwd", "a/b", "a" * 65])
def test_a_uid_that_could_not_be_a_file_name_is_refused(uid):
    with pytest.raises(ClaimRefused, match="is not a Kubernetes uid"):
        ClaimRef(namespace="research", name="a", uid=uid)
