"""A few calls to the API server as the lab's administrator, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from e2e.lab.command import LabError
from e2e.lab.layout import Layout

PORT = 16443
FIELD_MANAGER = "gangbridge-lab"


class KubeApi:
    """One keep-alive connection; not for use by several threads."""

    def __init__(self, lab: Layout, identity: str = "admin") -> None:
        config = json.loads(lab.kubeconfig(identity).read_text())
        self._token = config["users"][0]["user"]["token"]
        context = ssl.create_default_context(cafile=str(lab.pki / "ca.crt"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", PORT, timeout=30, context=context)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content: str = "application/json"
    ) -> tuple[int, Any]:
        """HTTP status and decoded answer. OSError when the server cannot be reached."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content, "Accept": "application/json"}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            text = response.read().decode()
        except http.client.HTTPException as error:
            self._connection.close()
            raise ConnectionError(str(error)) from error
        except OSError:
            self._connection.close()
            raise
        return response.status, json.loads(text) if text.startswith("{") else text  # health answers are plain text

    def get(self, path: str) -> Any:
        """The object, or None if there is none."""
        return self._expect(*self.call("GET", path), path, missing=True)

    def apply(self, path: str, manifest: Mapping[str, Any]) -> Any:
        """Server-side apply: creates or updates, and owns exactly the fields of `manifest`."""
        query = f"{path}?fieldManager={FIELD_MANAGER}&force=true"
        return self._expect(*self.call("PATCH", query, manifest, "application/apply-patch+yaml"), path)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Any:
        return self._expect(*self.call("PATCH", path, patch, "application/merge-patch+json"), path)

    def delete(self, path: str) -> Any:
        """Delete; nothing to delete is fine."""
        return self._expect(*self.call("DELETE", path), path, missing=True)

    @staticmethod
    def _expect(status: int, answer: Any, path: str, *, missing: bool = False) -> Any:
        if status == 404 and missing:
            return None
        if status >= 300:
            text = answer.get("message", answer) if isinstance(answer, dict) else answer
            raise LabError(f"API server: {path}: {status}: {text}")
        return answer


def ready(lab: Layout) -> bool:
    """The API server answers /readyz with ok."""
    try:
        return KubeApi(lab).call("GET", "/readyz")[0] == 200
    except OSError:  # not there yet; ssl errors are OSErrors too
        return False
