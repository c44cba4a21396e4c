"""The webhook server, on aiohttp. It decides nothing about injection, and never logs values of a pod.

A request, in order:

- ``listener``: a port and its connections. ``accepting``: accepts them.
- ``server``: starts and drains both ports, and leads each path to its handler. ``lifecycle``: its phases and background tasks.
- ``handler``: the whole request. ``reading``: its headers and body. ``limits``: all limits.
- ``cache``: answers to equal requests. ``queue``: turns, and worker threads. ``answer``: the record of an answer.
- ``decisions``, ``tracing``: log, explanations and spans.
- ``shadow``: compares a candidate revision after the response.

``unserved`` answers for unknown revisions and tags, ``operations`` answers on the operations port, and ``tls`` has the certificates.
"""
