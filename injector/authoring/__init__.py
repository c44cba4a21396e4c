"""Tools for authors of templates: what a template reads, its mistakes, where each line of its output comes from, its formatting.

``model`` knows the template data, ``goflow`` and ``jinjaflow`` follow it through the templates of the two engines, and ``lint`` judges.
``traced`` renders a pod with the place of each line. Nothing here takes part in an injection, and the server never imports it.
"""
