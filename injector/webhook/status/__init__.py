"""The operations port: probes, metrics and the status (``health``, ``page``)."""
