"""The rim: HTTP in and out of the pure core, on aiohttp.

``inject`` is one request from bytes to bytes; ``path`` reads its URL, ``repeats`` answers what came before,
``explained`` puts the decision into the answer, ``unserved`` answers for names that nobody serves, ``app`` is the table
of routes, ``health`` and ``status`` answer on the operations port, with the page that ``statuspage`` makes of
``history``, ``comparison`` and ``chart``, and ``server`` starts, serves and drains. It knows the registry and the core.
It decides nothing about injection, reads no revision, and never logs what a pod holds.
"""
