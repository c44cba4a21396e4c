"""The certificate of the webhook's port: from files (``files``) or signed by a CA that all replicas share (``ca``, ``selfsigned``).

``source`` gives every handshake the newest certificate, ``clients`` verifies client certificates, ``cabundle`` keeps the CA in the webhook
configurations up to date, and ``selfcheck`` connects to the port like an API server.
"""
