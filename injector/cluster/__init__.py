"""The API server: the only package that talks to it.

``client`` sends requests and is the only module that uses the Kubernetes library; ``kubeconfig`` finds the server. ``reader`` has the
table of resources and reads objects once, for commands. ``watchstate`` decides when to list, watch or wait, and ``listwatch`` does so.
``secrets`` and ``webhooks`` write the objects of the injector: a Secret, and MutatingWebhookConfigurations. This package knows no
revisions, and no text that it returns has a credential.
"""
