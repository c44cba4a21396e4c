"""The template engine of revisions with ``engine: jinja2``: ``engine`` compiles and renders, within a sandbox and a budget.

Jinja2 is imported only by revisions that use it: ``istio.revision`` loads this package when it builds one.
"""
