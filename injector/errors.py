"""Every error of the application, in one tree.

::

    InjectorError                    something the user can act on; never a traceback without -v
    ├── UsageError                   a wrong flag or argument            exit 64
    ├── TagError                     a tag that cannot be made, moved or removed as things are
    ├── ClusterError                 the API server: away, or it refuses
    ├── InternalError                a fault of the injector's own, where it must not stop
    └── DataError                    bad input: where, what, what to do  exit 65
        ├── ManifestError            a manifest or a pod that cannot be read
        ├── ConfigError              a revision's config, values, mesh or revision.yaml
        │   └── RecentPodError       a revision that fails on a pod injected a short while ago
        ├── TemplateRenderError      a template that does not parse or run
        │   └── PausedError          one that took too long again and again, and is not tried for a while
        ├── OverlayError             rendered text that is not a pod overlay
        ├── AnnotationError          an annotation with a value that Istio refuses
        ├── BreakOutError            a value of a pod that breaks out of the template
        └── ReviewError              an AdmissionReview that cannot be answered in full
            └── UnknownRevisionError the path names a revision or tag that nobody serves

``where`` names the file, annotation or key path (with a line where there is one), ``what`` the fault, ``hint`` what to do.
"""

from __future__ import annotations


class InjectorError(Exception):
    """An error that a user can act on."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text


def detach(error: BaseException) -> None:
    """Drop the traceback, cause and context of an error that is to be stored.

    They keep the frames alive that it passed through, with all local variables: often the error stored before it, and so all of them.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None


def whereabouts(error: BaseException) -> str:
    """Return where an unforeseen error came from, without its text: that may quote a pod."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('injector/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(places)}"


class UsageError(InjectorError):
    """A wrong flag or argument (BSD sysexits EX_USAGE)."""

    exit_code = 64


class TagError(InjectorError):
    """A tag that cannot be made, moved or removed as things are; the texts are istioctl's, and so is the exit code."""


class ClusterError(InjectorError):
    """The API server cannot be reached, or refuses; commands fail with it as kubectl does, with exit code 1.

    ``reason`` is one word of a closed list, for metrics and for decisions; ``status`` is the HTTP status, 0 where there
    was no answer; ``retry_after`` is how many seconds the API server asks to be left alone.
    """

    def __init__(
        self, what: str, *, where: str = "", hint: str = "", reason: str, status: int = 0, retry_after: float = 0.0
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after


class InternalError(InjectorError):
    """A fault of the injector's own, shown where the injector has to go on; ``origin`` is where it came from, for the log."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", origin: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.origin = origin


class DataError(InjectorError):
    """Input that cannot be used (BSD sysexits EX_DATAERR)."""

    exit_code = 65


class ManifestError(DataError):
    """A manifest or pod that cannot be read."""


class ConfigError(DataError):
    """A revision's config, values, mesh config or revision.yaml that cannot be used."""


class RecentPodError(ConfigError):
    """A revision that fails on a pod which the revision in use injected a short while ago."""


class TemplateRenderError(DataError):
    """A template that does not parse or run."""


class PausedError(TemplateRenderError):
    """A template that took too long again and again, and is not tried for a while."""


class OverlayError(DataError):
    """Rendered text that is no pod overlay, or does not merge into one."""


class AnnotationError(DataError):
    """A pod annotation whose value Istio refuses."""


class BreakOutError(DataError):
    """A value of a pod that breaks out of the template, or that it fails on. The text has nothing of the value."""


class ReviewError(DataError):
    """An AdmissionReview that cannot be answered with a patch."""


class UnknownRevisionError(ReviewError):
    """The path names a revision or tag that nobody serves."""
