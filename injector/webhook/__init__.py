"""The rim: HTTP in and out of the pure core, on aiohttp.

``inject`` is one request from bytes to bytes; ``admittance`` says whose turn it is and who should not wait, ``path`` reads
the URL, ``decisions`` logs, ``app`` is the table of routes, ``health`` and ``status`` answer on the operations port, and
``server`` starts, serves and drains. It knows the registry and the core. It decides nothing about injection, reads no
revision, and never logs what a pod holds.
"""
