"""The API server: the only package that talks to it.

``client`` sends requests and is the only module that uses the Kubernetes library; ``kubeconfig`` finds the server, and ``resources`` has
the table of resources, and a Secret as a whole. ``listwatch`` decides when to list, watch or wait, and does so. ``webhooks`` is about the
MutatingWebhookConfigurations that the injector writes, and ``lease`` elects the process that works. This package knows no revisions, and no
text that it returns has a credential.
"""
