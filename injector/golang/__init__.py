"""Go's own behaviour, one module for each Go package. It knows nothing of templates, Kubernetes or Istio.

- ``strconv``: numbers, quoted strings and base64.
- ``time``: durations, dates and layouts.
- ``json``: JSON read, and written as encoding/json writes it.
- ``netip``: addresses, CIDR ranges, host and port.
"""
