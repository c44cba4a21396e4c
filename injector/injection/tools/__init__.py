"""Tools on top of injection, for commands and for the shadow.

- ``manifest``: kube-inject: whole workload objects. ``uninject`` takes an injection back.
- ``explain``: the steps of one injection with their results.
- ``podchanges``: the differences between two injections of one pod, by kind.
- ``pitfalls``: pods that are injected and then do not work as intended.
- ``drift``: whether a running pod has the sidecar that its revision would inject now.
"""
