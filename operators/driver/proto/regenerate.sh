#!/bin/sh
# Regenerates the Python code of the two kubelet protocols: operators/driver/proto/regenerate.sh [PYTHON]
# The .proto files are pkg/apis/{dra,pluginregistration}/v1/api.proto of the Go module k8s.io/kubelet v0.37.2.
set -eu
cd "$(dirname "$0")/../../.."
python=${1:-.venv/bin/python}
proto=operators/driver/proto
"$python" -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
  "$proto/dra.proto" "$proto/pluginregistration.proto"
