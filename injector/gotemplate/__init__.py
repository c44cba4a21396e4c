"""Go text/template."""
