"""The certificate of the webhook's port: from files, or signed by a CA that all replicas share (``selfsigned``).

``certificate`` reads and checks certificates, ``certificatesource`` gives every handshake the newest one, and ``cabundle`` keeps the CA in
the webhook configurations up to date.
"""
