"""The steps of an injection after the templates: what a template cannot do. ``injection.pipeline`` has their order."""
