"""The answer to one review, with what counters, logs and spans say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from injector.metrics import UNKNOWN_REVISION, Outcome

if TYPE_CHECKING:
    from injector.kube import admission
    from injector.revisions.registry import Resolved
    from injector.webhook.shadow import Admission


class ReviewAnswer(NamedTuple):
    """The answer to one review.

    Attributes:
        reason: why a pod was skipped or denied.
        review: the review, as far as it could be decoded.
        resolved: the revision, and the tag that led to it.
        where: the place of an error, for the log.
        findings: findings of a guard that only warns.
        shadowed: the admission that the shadow of the tag compares.
        cached: whether it comes from the answer cache.
    """

    body: bytes
    outcome: Outcome
    reason: str
    review: admission.Request | admission.Broken
    resolved: Resolved | None
    where: str = ""
    findings: tuple[str, ...] = ()
    shadowed: Admission | None = None
    cached: bool = False

    @property
    def revision(self) -> str:
        """The name of the revision, for metrics and logs."""
        return UNKNOWN_REVISION if self.resolved is None else self.resolved.revision.name

    @property
    def tag(self) -> str:
        """The name of the tag; empty without one."""
        return "" if self.resolved is None else self.resolved.tag or ""
