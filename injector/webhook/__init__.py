"""The rim: HTTP in and out of the pure core, on aiohttp.

``inject`` is one request from bytes to bytes; ``reading`` and ``admittance`` say who is read and whose turn it is,
``path`` reads the URL, ``repeats`` answers what came before, ``decisions`` logs,
``explained`` puts the decision into the answer, ``unserved`` answers for names that nobody serves, ``app`` is the table
of routes, ``health`` and ``status`` answer on the operations port, with the page of ``statuspage``,
and ``server`` starts, serves and drains. The certificate is that of files
(``tls``) or one of its own (``authority`` -> ``succession`` -> ``casecret`` -> ``selfsigned``), handed to connections by
``handshakes``; ``cabundle`` tells API servers whom to trust, ``clients`` asks who they are. It knows the registry and the
core. It decides nothing about injection, reads no revision, and never logs what a pod holds.
"""
