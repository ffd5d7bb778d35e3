"""The API server takes the examples as they are: schemas, CEL rules, policies, and a PodSpec without unknown fields."""

from __future__ import annotations

import pytest
import yaml

from e2e.operator import ROOT, kubectl

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
DRY_RUN = ("apply", "--dry-run=server", "--validate=strict", "-f")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_api_server_takes_the_example(path) -> None:
    assert "(server dry run)" in kubectl(*DRY_RUN, str(path))


@pytest.mark.usefixtures("installed")
def test_it_would_refuse_a_field_that_it_does_not_know() -> None:
    broken = (ROOT / "examples" / "gangjob.yaml").read_text().replace("timeLimit:", "timelimit:")
    with pytest.raises(RuntimeError, match="timelimit"):
        kubectl(*DRY_RUN, "-", stdin=broken)


@pytest.mark.usefixtures("installed")
def test_the_example_pod_is_a_pod() -> None:
    # The GangJob's schema leaves the PodSpec to the API server: here it is asked for a bare pod of the template.
    gang = yaml.safe_load((ROOT / "examples" / "gangjob.yaml").read_text())
    template = gang["spec"]["roles"][0]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm", "namespace": "research"}, **template}
    assert "(server dry run)" in kubectl(*DRY_RUN, "-", stdin=yaml.safe_dump(pod))
