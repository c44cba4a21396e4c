"""A running istiod, asked about the pods of cases with the client of ``injector diff istiod/NAME``."""

from __future__ import annotations

import asyncio
import re
import urllib.request
import uuid
from dataclasses import replace

from injector.cluster.reviews import DroppedError, NoAnswerError, ReviewClient, WebhookAddress
from injector.fleet.istiod import istiod_at_url, read_answer, review_of
from injector.fleet.istiodoptions import IstiodOptions
from injector.injection.result import Injected, Skipped
from injector.istio.webhooks.paths import PATH_PREFIX
from injector.kube.podtemplates import Created
from tests.differential.injectors import NAMESPACE, REFUSED, SKIPPED, Answer, Case, alike

DROPPED: Answer = {**REFUSED, "why": "istiod dropped the connection"}
"""The handler of a Go server that panics does that."""
VERSION = re.compile(r"(?P<release>\S+)-(?P<commit>[0-9a-f]{40})-\w+")


def read_version(url: str, timeout: float) -> tuple[str, str]:
    """Return the release and the commit that istiod's page ``/version`` names, on its port for monitoring. Raises NoAnswerError."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:  # noqa: S310 -- the user's
            text = answer.read().decode(errors="replace").strip()
    except OSError as error:
        raise NoAnswerError(str(error), where=url) from error
    match = VERSION.fullmatch(text)
    if match is None:
        what = f"{text[:80]!r} is not RELEASE-COMMIT-STATUS; name both by --release and --commit"
        raise NoAnswerError(what, where=url)
    return match["release"], match["commit"]


async def answer(client: ReviewClient, address: WebhookAddress, case: Case) -> Answer:
    """Return what Istio makes of a pod: the injected pod, or that it skips or refuses it. Raises NoAnswerError or ClusterError."""
    uid = str(uuid.uuid4())
    address = replace(address, url=address.url.removesuffix("/") + case.path.removeprefix(PATH_PREFIX))
    try:
        text = await client.post(address, review_of(Created("Pod", NAMESPACE, case.name, case.pod), uid))
        reply = read_answer(case.pod, uid, text)
    except DroppedError:
        return DROPPED
    except NoAnswerError as error:
        raise NoAnswerError(error.what, where=address.url) from error
    if isinstance(reply, Injected):
        return {"pod": reply.shared_pod}
    return SKIPPED if isinstance(reply, Skipped) else {**REFUSED, "why": getattr(reply, "what", "")}


def ask(options: IstiodOptions, cases: list[Case], runs: int = 1) -> list[Answer | None]:
    """Return the answers of an istiod to cases, asked ``runs`` times; None if they vary: Go walks maps in random order."""

    async def replies() -> list[Answer | None]:
        (address,) = istiod_at_url("istiod", options).addresses
        client = ReviewClient(None, timeout=options.timeout)
        results: list[Answer | None] = []
        try:
            for case in cases:
                first, *others = [await answer(client, address, case) for _ in range(runs)]
                results.append(first if all(alike(other, first) for other in others) else None)
        finally:
            await client.close()
        return results

    return asyncio.run(replies())
