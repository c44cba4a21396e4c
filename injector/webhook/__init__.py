"""The webhook server, on aiohttp. It decides nothing about injection, and never logs values of a pod.

A request: ``listener`` (connections) -> ``handler`` -> ``reading`` (headers and body) -> ``cache`` (answers to equal requests) ->
``revisions.registry`` (revision or tag of the path) -> ``queue`` (turns, and worker threads) -> ``injection.pipeline`` -> ``decisions``
(log and explanation). ``shadow`` compares a candidate revision after the response. ``unserved`` answers for unknown revisions and tags.
``server`` starts and drains both ports, ``lifecycle`` has its phases and background tasks, ``limits`` all limits, and ``operations``
answers on the operations port. ``tls`` has the certificates.
"""
