"""The template engine of revisions with ``engine: jinja2``.

- ``engine``: compiles the templates of a revision and renders them.
- ``sandbox``: the values, functions and operators that a template may use; ``filters`` has its filters and tests.
- ``budget``: what values cost, beside the steps of any rendering.

Jinja2 is imported only by revisions that use it: ``istio.revision`` loads this package when it builds one.
"""
