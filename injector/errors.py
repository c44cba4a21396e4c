"""Every error of the application, in one tree.

::

    InjectorError                    the user can act on it; never a traceback without -v
    ├── UsageError                   an invalid flag or argument         exit 64
    ├── TagError                     a tag that cannot be created, moved or removed
    ├── ClusterError                 the API server cannot be reached, or refuses
    ├── InternalError                an internal error, where the injector must go on
    └── DataError                    invalid input                       exit 65
        ├── MultipleError            several of these, of one input
        ├── ManifestError            a manifest or pod that cannot be read
        ├── ConfigError              a revision's config, values, mesh config or revision.yaml
        │   ├── RecentPodError       a revision that fails on a recently injected pod
        │   └── NotConfiguredError   no cluster, or no source of revisions   exit 78
        ├── TemplateRenderError      a template that does not parse or run
        │   └── TemplateBudgetError  a template that exceeds its budget
        ├── OverlayError             rendered text that is not a pod overlay
        ├── AnnotationError          an annotation with a value that Istio refuses
        ├── BreakOutError            a value of a pod that breaks out of the template
        ├── InvalidPodError          an injected pod that the API server would refuse
        └── ReviewError              an AdmissionReview that cannot be answered with a patch
            └── UnknownRevisionError a path that names an unknown revision or tag

``where`` is the file, annotation or key path (with a line if known), ``what`` the fault, ``hint`` the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
U = TypeVar("U")

MAX_REPORTED: Final = 20
"""The number of faulty workloads that a command reports."""


class InjectorError(Exception):
    """An error that the user can act on."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text

    @property
    def place(self) -> str:
        """``where`` for logs and pages: without any value of an annotation or variable."""
        return self.where


def detach(error: BaseException) -> None:
    """Drop the traceback, cause and context of an error before it is stored: they keep frames with all local variables alive."""
    error.__traceback__ = error.__cause__ = error.__context__ = None


def whereabouts(error: BaseException) -> str:
    """Return the class and place of an unexpected error, the first one of a group, without its text, which may quote a pod."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    places = []
    trace = error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('injector/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(places)}"


class UsageError(InjectorError):
    """An invalid flag or argument (BSD sysexits EX_USAGE)."""

    exit_code = 64


class TagError(InjectorError):
    """A tag that cannot be created, moved or removed. The texts and the exit code are istioctl's."""


class ClusterError(InjectorError):
    """The API server cannot be reached, or refuses. As with kubectl, the exit code is 1.

    ``reason`` is one word of a closed list, for metrics. ``status`` is the HTTP status, 0 without a response. ``retry_after`` are the
    seconds of the ``Retry-After`` header.
    """

    def __init__(
        self, what: str, *, where: str = "", hint: str = "", reason: str, status: int = 0, retry_after: float = 0.0
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after

    @property
    def refuses_object(self) -> bool:
        """Whether the API server, or an admission plugin or webhook of its, refuses the object of the request."""
        return self.status in (400, 403, 422)


class InternalError(InjectorError):
    """An internal error, where the injector has to go on; ``origin`` is its place, for the log."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", origin: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.origin = origin


class DataError(InjectorError):
    """Invalid input (BSD sysexits EX_DATAERR)."""

    exit_code = 65

    @property
    def errors(self) -> tuple[DataError, ...]:
        """The errors to report, each on its own line."""
        return (self,)


class MultipleError(DataError):
    """Several errors of one input, each with its own place."""

    def __init__(self, errors: Iterable[DataError]) -> None:
        self._errors = tuple(errors)
        super().__init__("\n".join(map(str, self._errors)))

    def __str__(self) -> str:
        return "\n".join(map(str, self._errors))

    @property
    def errors(self) -> tuple[DataError, ...]:
        """The errors to report, each on its own line."""
        return self._errors


def for_each(items: Iterable[T], function: Callable[[T], U]) -> Iterator[U]:
    """Yield the result of ``function`` for each item, and raise the errors after the last one, or after ``MAX_REPORTED`` errors.

    Raises:
        DataError: ``function`` raises it for one item.
        MultipleError: for several items.
    """
    errors: list[DataError] = []
    for item in items:
        try:
            yield function(item)
        except DataError as error:
            errors += error.errors
        if len(errors) >= MAX_REPORTED:
            break
    if errors:
        raise errors[0] if len(errors) == 1 else MultipleError(errors[:MAX_REPORTED])


class ManifestError(DataError):
    """A manifest or pod that cannot be read."""


class ConfigError(DataError):
    """A revision's config, values, mesh config or revision.yaml that is not valid."""


class NotConfiguredError(ConfigError):
    """No cluster or no source of revisions is configured, or its variable is empty (BSD sysexits EX_CONFIG)."""

    exit_code = 78


def no_source(*ways: str) -> NotConfiguredError:
    """Return the error for a command that needs revisions, if nothing says where they are. ``ways`` are those to say it."""
    hint = f"give {', '.join(ways)}, or --embedded for the two examples"
    return NotConfiguredError("no source of revisions is configured", hint=hint)


class RecentPodError(ConfigError):
    """A revision that fails on a pod which the current one injected recently."""


class TemplateRenderError(DataError):
    """A template that does not parse or run."""


class TemplateBudgetError(TemplateRenderError):
    """A template that asks for more steps, output, memory, nesting or time than it may."""


class OverlayError(DataError):
    """Rendered text that is not a pod overlay, or cannot be merged."""


class AnnotationError(DataError):
    """A pod annotation whose value Istio refuses.

    ``names`` are the annotations, for the log, if ``where`` does not say so because the text is Istio's.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "", names: Iterable[str] = ()) -> None:
        super().__init__(what, where=where, hint=hint)
        self.names = tuple(names)


class BreakOutError(DataError):
    """A value of a pod that breaks out of the template, or makes it fail. The text does not quote the value."""


class InvalidPodError(DataError):
    """An injected pod that the API server would refuse because of the injection.

    ``where`` is the field with the names of its list entries. A template can make such a name of an annotation, so ``place`` has only names
    that the pod had before. ``lacks_volumes`` tells whether it has no other fault than mounts of volumes that it does not have.
    """

    def __init__(
        self, what: str, *, where: str = "", hint: str = "", place: str = "", lacks_volumes: bool = False
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self._place = place
        self.lacks_volumes = lacks_volumes

    @property
    def place(self) -> str:
        """The field with those names that the pod had before."""
        return self._place


class ReviewError(DataError):
    """An AdmissionReview that cannot be answered with a patch."""


class UnknownRevisionError(ReviewError):
    """A path that names an unknown revision or tag."""
