import base64
import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from operators.driver.api import ApiReader
from operators.driver.claims import ClaimRef
from operators.driver.errors import ApiUnavailable, SetupError
from operators.driver.kubeconfig import Access, from_kubeconfig, in_cluster

REF = ClaimRef(namespace="research", name="a", uid="uid-a")


def _write(folder, *, cluster, user):
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A certificate that is its own authority, for 127.0.0.1, server and client alike."""
    folder = tmp_path_factory.mktemp("pki")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=gangbridge"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def https(pair):
    """An HTTPS server that asks for a client certificate and answers with its subject."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pair[0])
    tls.load_cert_chain(*pair)
    tls.verify_mode = ssl.CERT_OPTIONAL

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            peer = self.connection.getpeercert()
            body = json.dumps({"peer": dict(entry[0] for entry in peer["subject"]) if peer else None}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(HTTPServer):
        def handle_error(self, *_):
            pass  # a client that breaks off the handshake

    server = Server(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_authority_and_client_certificate_from_data_and_from_files(tmp_path, https, pair):
    cert, key = (path.read_bytes() for path in pair)
    inline = _write(
        tmp_path,
        cluster={"server": https, "certificate-authority-data": base64.b64encode(cert).decode()},
        user={
            "client-certificate-data": base64.b64encode(cert).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        },
    )
    assert ApiReader(from_kubeconfig(inline)).claim(REF) == {"peer": {"commonName": "gangbridge"}}
    (tmp_path / "beside.pem").write_bytes(cert)
    files = _write(
        tmp_path,
        cluster={"server": https, "certificate-authority": "beside.pem"},
        user={"client-certificate": str(pair[0]), "client-key": str(pair[1])},
    )
    assert ApiReader(from_kubeconfig(files)).claim(REF) == {"peer": {"commonName": "gangbridge"}}


def test_an_unknown_authority_is_not_trusted_unless_told(tmp_path, https):
    strict = _write(tmp_path, cluster={"server": https}, user={"token": "t"})
    with pytest.raises(ApiUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        ApiReader(from_kubeconfig(strict)).claim(REF)
    lenient = _write(tmp_path, cluster={"server": https, "insecure-skip-tls-verify": True}, user={"token": "t"})
    assert ApiReader(from_kubeconfig(lenient)).claim(REF) == {"peer": None}


def test_a_token_file_is_read_for_each_request(tmp_path):
    access = from_kubeconfig(
        _write(tmp_path, cluster={"server": "http://127.0.0.1:1"}, user={"tokenFile": "token", "token": "stale"})
    )
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        assert access.headers() == {"Authorization": f"Bearer {token}"}


def test_a_token_is_not_shown():
    assert "secret" not in repr(Access(server="http://127.0.0.1:1", token="secret"))  # noqa: S106 - the word to look for


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {}, "field 'server' is missing"),
        ({"server": "127.0.0.1:6443"}, {}, "API server '127.0.0.1:6443' is not an http or https URL"),
        ({"server": "https://a"}, {"exec": {"command": "aws"}}, "users.*exec is not supported"),
        ({"server": "https://a", "certificate-authority": "absent.crt"}, {}, "certificate or key: .*absent.crt"),
        ({"server": "https://a", "certificate-authority-data": "A"}, {}, "certificate or key: "),
    ],
)
def test_a_bad_kubeconfig_is_refused_by_field(tmp_path, cluster, user, message):
    with pytest.raises(SetupError, match=message):
        from_kubeconfig(_write(tmp_path, cluster=cluster, user=user))


def test_a_kubeconfig_that_is_none_is_refused(tmp_path):
    (tmp_path / "config").write_text("- a list")
    with pytest.raises(SetupError, match=r"config: field .* is missing"):
        from_kubeconfig(tmp_path / "config")
    with pytest.raises(SetupError, match="No such file"):
        from_kubeconfig(tmp_path / "absent")


def test_the_service_account_of_a_pod(tmp_path, pair):
    (tmp_path / "token").write_text("abc")
    (tmp_path / "ca.crt").write_bytes(pair[0].read_bytes())
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(environ, tmp_path)
    assert access.server == "https://[fd00::1]:443"
    assert access.headers() == {"Authorization": "Bearer abc"}
    with pytest.raises(SetupError, match="not in a pod"):
        in_cluster({}, tmp_path)
    with pytest.raises(SetupError, match=r"service account CA .*ca\.crt"):
        in_cluster(environ, tmp_path / "absent")


def test_a_silent_api_server_is_unavailable(tmp_path, api):
    api.hold.clear()
    reader = ApiReader(from_kubeconfig(api.kubeconfig(tmp_path)), timeout=0.2)
    with pytest.raises(ApiUnavailable, match=r"GET /apis/resource.k8s.io/v1/.*/resourceclaims/a: TimeoutError"):
        reader.claim(REF)
