#!/bin/sh
# Runs inside the Slurm root: build pyslurm against the libslurm headers there, leave the wheel in /var/cache/wheels and
# install it in /opt/venv, together with what the worker's own binding needs.
#
# pyslurm 25.11 knows Slurm 25.11; against 26.05 four things differ, and only these are touched:
#   the version number that its setup checks, one new member of job_resources, and two symbols that were renamed or dropped.
set -eu
version=$1
wheels=/var/cache/wheels
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$wheels"

[ -x /opt/venv/bin/pip ] || python3 -m venv /opt/venv
pip=/opt/venv/bin/pip
"$pip" install -q 'cython<3.2' setuptools wheel packaging cffi

if ! ls "$wheels"/pyslurm-"$version"-*.whl >/dev/null 2>&1; then
    mkdir "$work/include"
    cp -r /usr/include/slurm "$work/include/"
    sed -i -E 's/(#define[[:space:]]+SLURM_VERSION_NUMBER[[:space:]]+).*/\10x190b00/' "$work/include/slurm/slurm_version.h"
    cd "$work"
    "$pip" download -q --no-deps --no-binary :all: --no-build-isolation "pyslurm==$version"
    tar xzf "pyslurm-$version.tar.gz"
    cd "pyslurm-$version"
    # struct job_resources gained `node_ranks` after `node_bitmap`; without it every later member is read from the wrong place
    awk '/ctypedef struct job_resources:/ { inside = 1 }
         { print }
         inside && /node_bitmap/ { match($0, /^[ \t]+/); print substr($0, 1, RLENGTH) "uint32_t *node_ranks"; inside = 0 }' \
        pyslurm/slurm/extra.pxi > "$work/extra.pxi"
    grep -q node_ranks "$work/extra.pxi"
    mv "$work/extra.pxi" pyslurm/slurm/extra.pxi
    SLURM_INCLUDE_DIR="$work/include" SLURM_LIB_DIR="/usr/lib/$(gcc -print-multiarch)" PYSLURM_BUILD_JOBS=2 \
    CFLAGS="-O1 -g0 -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf -DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=ESLURM_INTERNAL" \
        "$pip" wheel --no-deps --no-build-isolation -w "$wheels" .
fi
cd /
"$pip" install -q --force-reinstall --no-deps "$wheels"/pyslurm-"$version"-*.whl
PYSLURM_DISABLE_AUTO_INIT=1 /opt/venv/bin/python -c 'import pyslurm; print("pyslurm", pyslurm.__version__)'
