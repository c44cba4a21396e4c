"""The steps of an injection after the templates: what a template cannot do.

- ``postprocess``: all steps in their order, the short ones among them. The others are:
- ``overrides``: a container of the pod that the template also injects is applied again on top.
- ``prometheus``: the agent serves the application's metrics with its own.
- ``probes``: kubelet's probes go to the agent.
- ``status``: the annotation that lists what was added, and its removal from a pod that was injected before.
"""
