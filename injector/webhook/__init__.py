"""The server: HTTP in and out of the pure core, on aiohttp.

``inject`` is one request from bytes to bytes: ``reading`` reads it, ``path`` reads its URL, ``cache`` has the answers to equal requests,
``queue`` and ``slow`` say when and where it is injected, and ``decisions`` logs and explains the decision. ``unserved`` answers for names
that are not served. ``app`` is the table of routes; ``health`` and ``status`` answer on the operations port, with the page of
``statuspage``. ``listener`` has the connections, ``server`` starts, serves and drains, and ``supervisor`` runs the background tasks. The
certificate comes from files (``tls``) or is self-signed (``ca``, ``selfsigned``); ``cabundle`` tells API servers which CA to trust. The
package decides nothing about injection, reads no revision, and never logs what a pod holds.
"""
