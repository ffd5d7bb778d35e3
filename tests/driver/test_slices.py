import pytest

from operators.driver.errors import ClaimRefused
from operators.driver.slices import CACHE_SECONDS, Address, PoolReader, read_pool
from tests.driver.api_server import DRIVER, device, pool_slice


def test_the_attribute_and_not_the_name_is_the_index():
    found = read_pool([pool_slice(device("gpu-0", 3), device("gpu-1", 0, 7, domain=f"{DRIVER}/"))], "k8s-gpu-0")
    assert found == {"gpu-0": Address(index=3, number=3), "gpu-1": Address(index=0, number=7)}


def test_the_newest_generation_of_this_pool_alone_counts():
    found = read_pool(
        [
            pool_slice(device("old", 0), generation=1),
            pool_slice(device("gpu-0", 0), generation=2, count=2),
            pool_slice(device("gpu-1", 1), generation=2, count=2),
            pool_slice(device("gpu-9", 9), pool="k8s-gpu-1", generation=5),
            pool_slice(device("gpu-8", 8), driver="gpu.example.com", generation=5),
        ],
        "k8s-gpu-0",
    )
    assert set(found) == {"gpu-0", "gpu-1"}


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ([], "no ResourceSlice of driver gpu.gangbridge.dev has the pool k8s-gpu-0"),
        (
            [pool_slice(generation=1), pool_slice(generation=4, count=2)],
            "pool k8s-gpu-0 is incomplete: 1 of 2 slices of generation 4",
        ),
        (
            [pool_slice({"name": "gpu-0", "attributes": {"index": {"string": "0"}}})],
            "device k8s-gpu-0/gpu-0 has no integer attribute index",
        ),
        ([pool_slice(device("gpu-0", 0), device("gpu-0", 1))], "has 2 devices but 1 of them by name"),
        ([pool_slice(device("gpu-0", 0), device("gpu-1", 0, 1))], "has 2 devices but 1 of them by index"),
        (
            [pool_slice(device("gpu-0", 0, 4), device("gpu-1", 1, 4))],
            "has 2 devices but 1 of them by device node number",
        ),
    ],
)
def test_a_pool_that_cannot_be_trusted_is_refused(slices, message):
    with pytest.raises(ClaimRefused, match=message):
        read_pool(slices, "k8s-gpu-0")


class _Published:
    def __init__(self):
        self.slices = [pool_slice(device("gpu-0", 0))]
        self.reads = 0
        self.now = 100.0

    def read(self):
        self.reads += 1
        return self.slices


def test_the_pool_is_read_again_when_old_or_when_a_device_is_missing():
    published = _Published()
    pool = PoolReader("k8s-gpu-0", published.read, clock=lambda: published.now)
    assert pool.address("gpu-0").index == 0
    assert pool.address("gpu-0").index == 0
    assert published.reads == 1

    published.slices = [pool_slice(device("gpu-0", 5), device("gpu-1", 1), generation=2)]
    assert pool.address("gpu-1").index == 1
    assert published.reads == 2

    published.slices = [pool_slice(device("gpu-0", 6), generation=3)]
    published.now += CACHE_SECONDS - 0.1
    assert pool.address("gpu-0").index == 5
    published.now += 0.1
    assert pool.address("gpu-0").index == 6
    assert published.reads == 3


def test_an_unknown_device_is_named_with_what_is_published():
    published = _Published()
    pool = PoolReader("k8s-gpu-0", published.read, clock=lambda: published.now)
    with pytest.raises(
        ClaimRefused, match=r"device k8s-gpu-0/gpu-7 is in no ResourceSlice of the pool; published: gpu-0"
    ):
        pool.address("gpu-7")
