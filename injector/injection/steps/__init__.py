"""The steps of an injection after the templates: what a template cannot do. ``injection.postprocess`` has their order."""
