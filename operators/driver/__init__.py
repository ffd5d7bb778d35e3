"""The kubelet plugin of the driver ``gpu.gangbridge.dev``: gives a pod's containers the devices of its claims, by CDI.

One process per node, started as ``python -m operators.driver``. Nothing here decides who gets a device: the claim's
allocation does, and the plugin carries it out or refuses with a reason.

What a container with a claim finds:

* the device nodes of the claim's devices, and no others;
* ``GANGBRIDGE_GPU_<index>=<pool>/<device>`` for each of them. One variable per device, because a container may have
  several claims: each claim is a CDI spec of its own, and of two specs that set one variable the later wins, so a
  list ("0,3") could never be right for more than one claim. ``env | sed -n 's/^GANGBRIDGE_GPU_\\([0-9]*\\)=.*/\\1/p'``
  prints the indices;
* ``NVIDIA_VISIBLE_DEVICES=void``, the same in every spec: images ask for ``all`` there, and NVIDIA's own runtime hook
  would then add every GPU of the node behind our back. CUDA needs no list, it sees the device nodes that exist.
"""
