"""The API server: the only package that talks to it.

- ``client``: sends requests, and is the only module that uses the Kubernetes library. ``kubeconfig``: where the server is.
  ``plugin``: the commands of kubeconfigs that print credentials.
- ``session``: a client and its event loop, for code without one.
- ``resources``: the table of resources, and how objects are selected. ``secrets``: one Secret as a whole.
- ``listwatch``: keeps the objects of a scope, and decides when to list, watch or wait.
- ``webhooks``: the MutatingWebhookConfigurations that the injector writes. ``lease``: of several processes, one works.
- ``reviews``: posts AdmissionReviews to the webhook of another injector, through the API server or to a URL.
- ``tls``: which certificates of servers clients accept.

This package knows no revisions, and no text that it returns has a credential.
"""
