"""The two gRPC services that kubelet calls; the names of the methods are the protocol's."""

from __future__ import annotations

import grpc
import structlog

from bridge.wellknown import DRIVER
from operators.driver.cdi import PreparedClaim, device_id
from operators.driver.claims import ClaimRef
from operators.driver.errors import DriverError
from operators.driver.plugin import Plugin
from operators.driver.proto import dra_pb2 as dra
from operators.driver.proto import pluginregistration_pb2 as registration

SUPPORTED_VERSION = "v1.DRAPlugin"
"""Name of k8s.io/kubelet pkg/apis/dra/v1 in the registration (Kubernetes 1.34 and later)."""

log = structlog.get_logger(__name__)


class RegistrationService:
    """Tells kubelet the driver's name and where its other socket is."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def GetInfo(self, _request: registration.InfoRequest, _context: grpc.ServicerContext) -> registration.PluginInfo:  # noqa: N802
        """The first call of a kubelet that found the registration socket."""
        return registration.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=self._endpoint, supported_versions=[SUPPORTED_VERSION]
        )

    def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration.RegistrationStatus, _context: grpc.ServicerContext
    ) -> registration.RegistrationStatusResponse:
        """Kubelet's verdict. It tries again by itself, so a refusal is only told."""
        if request.plugin_registered:
            log.info("plugin_registered", driver=DRIVER)
        else:
            log.error("plugin_not_registered", driver=DRIVER, error=request.error)
        return registration.RegistrationStatusResponse()


class DraService:
    """One answer per claim asked for; a claim that fails does not stop the others. Kubelet repeats until success."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def NodePrepareResources(  # noqa: N802
        self, request: dra.NodePrepareResourcesRequest, _context: grpc.ServicerContext
    ) -> dra.NodePrepareResourcesResponse:
        """Called before the containers of a pod start."""
        return dra.NodePrepareResourcesResponse(claims={claim.uid: self._prepare(claim) for claim in request.claims})

    def NodeUnprepareResources(  # noqa: N802
        self, request: dra.NodeUnprepareResourcesRequest, _context: grpc.ServicerContext
    ) -> dra.NodeUnprepareResourcesResponse:
        """Called when the last pod of a claim has ended; the claim may be gone."""
        return dra.NodeUnprepareResourcesResponse(
            claims={claim.uid: self._unprepare(claim) for claim in request.claims}
        )

    def _prepare(self, claim: dra.Claim) -> dra.NodePrepareResourceResponse:
        try:
            prepared = self._plugin.prepare(_ref(claim))
        except (DriverError, OSError) as error:
            log.warning("prepare_refused", namespace=claim.namespace, name=claim.name, uid=claim.uid, error=str(error))
            return dra.NodePrepareResourceResponse(error=str(error))
        log.info("claim_prepared", claim=str(prepared.claim), devices=[device.index for device in prepared.devices])
        return dra.NodePrepareResourceResponse(devices=_devices(prepared))

    def _unprepare(self, claim: dra.Claim) -> dra.NodeUnprepareResourceResponse:
        try:
            removed = self._plugin.unprepare(_ref(claim))
        except (DriverError, OSError) as error:
            log.warning("unprepare_failed", namespace=claim.namespace, name=claim.name, uid=claim.uid, error=str(error))
            return dra.NodeUnprepareResourceResponse(error=str(error))
        log.info("claim_unprepared", namespace=claim.namespace, name=claim.name, uid=claim.uid, removed=removed)
        return dra.NodeUnprepareResourceResponse()


def _ref(claim: dra.Claim) -> ClaimRef:
    return ClaimRef(namespace=claim.namespace, name=claim.name, uid=claim.uid)


def _devices(prepared: PreparedClaim) -> list[dra.Device]:
    return [
        dra.Device(
            request_names=[allotment.request],
            pool_name=allotment.pool,
            device_name=allotment.device,
            cdi_device_ids=[device_id(prepared.claim, allotment.device)],
        )
        for allotment in prepared.allotments
    ]
