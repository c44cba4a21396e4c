"""The API server: the only package that talks to it.

``client`` sends requests and is the only module that uses the Kubernetes library; ``kubeconfig`` finds the server, and ``resources`` has
the table of resources. ``listwatch`` decides when to list, watch or wait, and does so. ``secrets`` and ``webhooks`` are
about the objects that the injector writes: a Secret, and MutatingWebhookConfigurations. This package knows no revisions, and no text that
it returns has a credential.
"""
