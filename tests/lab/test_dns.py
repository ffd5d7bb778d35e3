"""The lab's DNS, message by message."""

import struct

import pytest

from e2e.lab import dns

READY, GONE = {"ready": True}, {"ready": False}
SLICES = {
    ("research", "gang"): [
        {
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.88.0.2"], "hostname": "worker-0", "conditions": READY},
                {"addresses": ["10.88.1.3"], "hostname": "worker-1", "conditions": READY},
                {"addresses": ["10.88.1.4"], "hostname": "worker-2", "conditions": GONE},
            ],
        },
        {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"], "conditions": READY}]},
    ],
    ("research", "empty"): [{"addressType": "IPv4", "endpoints": None}],
}


def lookup(labels):
    return dns.addresses(labels, lambda namespace, service: SLICES.get((namespace, service), []))


def query(name: str, kind: int = dns.A) -> bytes:
    encoded = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    return struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0) + encoded + struct.pack("!HH", kind, dns.IN)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gang.research.svc.cluster.local", ["10.88.0.2", "10.88.1.3"]),
        ("worker-1.gang.research.svc.cluster.local", ["10.88.1.3"]),
        ("worker-2.gang.research.svc.cluster.local", None),  # not ready
        ("worker-9.gang.research.svc.cluster.local", None),
        ("empty.research.svc.cluster.local", None),
        ("gang.other.svc.cluster.local", None),
        ("research.svc.cluster.local", None),
        ("a.b.gang.research.svc.cluster.local", None),
        ("gang.research.example.org", None),
    ],
)
def test_names(name, expected):
    assert lookup(name.split(".")) == expected


def test_reply_repeats_the_question_and_lists_the_addresses():
    asked = query("Gang.research.svc.cluster.LOCAL")
    reply = dns.answer(asked, lookup)
    identity, flags, questions, answers, _, _ = struct.unpack_from("!HHHHHH", reply)
    assert (identity, flags, questions, answers) == (77, 0x8500, 1, 2)
    assert reply[12 : len(asked)] == asked[12:]
    assert reply.endswith(bytes([10, 88, 1, 3]))


def test_no_such_name_and_no_such_record_differ():
    assert struct.unpack_from("!HHHH", dns.answer(query("x.research.svc.cluster.local"), lookup))[1] & 15 == dns.NO_NAME
    aaaa = struct.unpack_from("!HHHH", dns.answer(query("gang.research.svc.cluster.local", 28), lookup))
    assert (aaaa[1] & 15, aaaa[3]) == (dns.NO_ERROR, 0)


def test_api_server_away_is_a_server_failure():
    def away(_labels):
        raise ConnectionRefusedError

    assert dns.answer(query("gang.research.svc.cluster.local"), away)[3] & 15 == dns.SERVER_FAILURE


@pytest.mark.parametrize("message", [b"", b"\0" * 12, query("a.b")[:14], struct.pack("!HHHHHH", 1, 0x8000, 1, 0, 0, 0)])
def test_what_is_no_query_is_refused(message):
    with pytest.raises((ValueError, IndexError, struct.error)):
        dns.answer(message, lookup)
