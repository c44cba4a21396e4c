"""Tools for authors of templates: what a template reads, its mistakes, where each line of its output comes from, its formatting.

- ``model``: the template data, as places that templates can read.
- ``goflow``, ``jinjaflow``: follow the data through the templates of an engine: what they read, print and decide.
- ``lint``, ``jinjalint``: the mistakes of templates of an engine, judged by what the flow says.
- ``traced``: renders a template for a pod with the place of each line, for ``injector template trace``.
- ``formatting``, ``formatfile``: the canonical form of the actions of a template, and of a file of templates.

Nothing here takes part in an injection, and the server never imports it.
"""
