from pathlib import Path

import pytest

from operators.driver.errors import SetupError
from operators.driver.sockets import Sockets


def test_a_path_too_long_for_a_socket_is_refused_with_its_length(build):
    folder = Path("/" + "k" * 80)
    length = len(f"{folder}/plugins/gpu.gangbridge.dev/dra.sock")
    with pytest.raises(SetupError, match=rf"has {length} bytes, a unix socket allows 107"):
        Sockets(build(), folder)


def test_a_folder_that_cannot_be_made_is_named(build, kubelet):
    kubelet.folder.mkdir()
    (kubelet.folder / "plugins").write_text("a file")
    with pytest.raises(SetupError, match=r"dra.sock: (Not a directory|File exists)"):
        Sockets(build(), kubelet.folder).start()
