"""The operations port: probes, metrics and the status (``operations``, ``page``)."""
