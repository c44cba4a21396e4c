"""Files in memory: a path for OpenSSL, which reads certificates and keys only from files. No key is written to a disk."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def file_in_memory(content: bytes) -> Iterator[str]:
    """Yield a path from which ``content`` can be read. Nothing is left if the process is killed."""
    in_memory = hasattr(os, "memfd_create")  # Linux; elsewhere an unlinked temporary file, for development
    with os.fdopen(os.memfd_create("tls"), "w+b") if in_memory else tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"
