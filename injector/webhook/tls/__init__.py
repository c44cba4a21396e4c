"""The certificate of the webhook's port: from files, or signed by a CA that all replicas share (``selfsigned``).

``certificate`` reads and checks certificates, ``source`` gives every handshake the newest one, ``cabundle`` keeps the CA in the webhook
configurations up to date.
"""
