"""The pure core: (Revision, pod, request facts) in, a patch or the reason for none out.

``pipeline.inject_pod`` is the table of contents of one injection; every other module here is one of its steps. Nothing in this
package does I/O, waits, or remembers anything between calls.
"""
