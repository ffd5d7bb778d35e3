"""``python -m operators`` is ``gangbridge operator``."""

import sys

from operators.cli import app

app(["operator", *sys.argv[1:]])
