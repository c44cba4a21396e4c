"""``injector diff``: what another revision would change in the pods of manifests, or of a cluster."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.formats import REPORTS
from injector.cli.istiodoptions import ISTIOD_PARAMETERS, istiod_options
from injector.cli.manifests import read_files, read_workloads, workload_options
from injector.cli.options import (
    ALL_FLAG,
    ALL_NAMESPACES,
    GUARD,
    OutputFormat,
    confirm_option,
    exit_code_option,
    refuse_unused,
)
from injector.cli.output import (
    DIFF_COLORS,
    HEADINGS,
    data_text,
    echo_colored,
    examples,
    one_line,
    table,
    with_progress,
)
from injector.cli.sources import (
    ByCluster,
    clusters_options,
    complete_names,
    directory_source,
    on_each,
    only_one,
    revision_name,
    select_file_revisions,
)
from injector.errors import DataError, UsageError
from injector.fleet.groups import groups, tally
from injector.fleet.istiodoptions import ISTIOD
from injector.fleet.manifests import SUFFIXES, WorkloadFiles
from injector.fleet.sides import Compared, Sides
from injector.hints import EXAMPLES, count_of, first_of
from injector.injection.result import Answer, Injected, Unanswered
from injector.injection.tools.podchanges import ABSENT, KINDS, Change, hiding_of
from injector.kube.escaping import escape_line, printable
from injector.kube.podsecurity import level_of
from injector.kube.yaml import dump_yaml

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig
    from injector.fleet.compare import Comparison, Side
    from injector.fleet.istiodoptions import IstiodOptions
    from injector.fleet.sources import RevisionSources
    from injector.kube.podtemplates import Created


COLUMNS: Final = ("KIND", "WORKLOADS", "CHANGES")
FORMATS: Final = ("text", "summary", "unified", "json", "yaml", "markdown", "sarif")
_COLORS: Final = {
    "text": {r"^\S+ \S+/\S+$": "1", r"^  \w+$": "36", **HEADINGS},
    "unified": DIFF_COLORS,
}


@click.command(
    "diff",
    epilog=examples(
        "diff stable canary -f docs/samples/hello.yaml",
        "diff 1-24 1-30 --live --namespace shop",
        "diff 1-24 1-30 --live --context east --context west",
        "diff prod 1-30 -f app.yaml --only image -o unified",
        "diff istiod/1-30 1-30 --live",
    ),
)
@click.argument("old_name", metavar="REV_A", shell_complete=complete_names)
@click.argument("new_name", metavar="REV_B", shell_complete=complete_names)
@workload_options("Namespace for workloads that have none. With --live, only this namespace.")
@click.option("--live", is_flag=True, help="Compare the workloads of the cluster that a webhook injects.")
@ALL_NAMESPACES
@clusters_options
@GUARD
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(KINDS),
    metavar="KIND",
    help=f"Show only changes of this kind: {', '.join(KINDS)}. Repeatable.",
)
@click.option(
    "--ignore",
    multiple=True,
    type=click.Choice(KINDS),
    metavar="KIND",
    help="Hide changes of this kind, one of those of --only. Repeatable.",
)
@click.option("-o", "--output", type=OutputFormat(FORMATS), help="Output format. Default: text, with --live summary.")
@confirm_option("With --live")
@istiod_options
@exit_code_option("there are differences")
@verbose
def diff(  # noqa: PLR0913 -- one parameter for each flag
    *,
    old_name: str,
    new_name: str,
    files: WorkloadFiles,
    live: bool,
    every: bool,
    sources: RevisionSources,
    kubeconfigs: tuple[Kubeconfig, ...],
    guard: str,
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    output: str | None,
    confirm: int,
    istiod: IstiodOptions,
    exit_code: bool,
) -> None:
    """Compare the pods that two revisions or tags produce, for FILES or for the cluster.

    Each pod is injected as by the webhook. With istiod/NAME in place of a revision or tag, the running istiod that its webhook calls
    injects the pods, in a dry run, through the API server's proxy or at --istiod-url. The exit code is 0 if nothing differs, 1 if
    something does.
    """
    names = old_name, new_name
    format_name = output or ("summary" if live else "text")
    _check_names(names, istiod)
    if live:
        _check_live(files, sources, kubeconfigs, every=every, output=format_name)
    else:
        _check_files(files, kubeconfigs)
    kinds = frozenset(only or KINDS) - frozenset(ignore)
    sides = Sides(names, sources, kinds, guard, istiod, keeps_pods=output == "unified")

    def compare(kubeconfig: Kubeconfig) -> Compared:
        if live:
            return sides.compare_live(files, kubeconfig, confirm, with_progress)
        reader = read_files(files)
        workloads = read_workloads(files, reader)
        uses_cluster = sides.has_istiod and istiod.url is None
        with select_file_revisions(reader, sources, kubeconfig, uses_cluster=uses_cluster) as revisions:
            view = sides.view_of_files(reader, revisions)
        return sides.compare_in_files(reader, view, workloads, kubeconfig, with_progress)

    by_cluster = on_each(kubeconfigs, compare)
    by_cluster.note("note", lambda compared: compared.notes)
    by_cluster.note("warning", _warnings)
    messages = _message_groups if format_name == "summary" else _messages
    by_cluster.note("warning", lambda compared: messages(compared.comparisons))
    echo_colored(_text(by_cluster, format_name), _COLORS.get(format_name, {}))
    differs = any(comparison.changes for one in by_cluster.results.values() for comparison in one.comparisons)
    by_cluster.exit(has_findings=exit_code and differs)


def _check_names(names: tuple[str, str], istiod: IstiodOptions) -> None:
    for name, other in zip(names, reversed(names), strict=True):
        if Path(name).suffix in SUFFIXES:
            more = f" -f {other}" if Path(other).suffix in SUFFIXES else ""
            hint = f"write `diff REV_A REV_B -f {name}{more}`"
            raise UsageError(f"{name!r} is a file, not a revision or tag", hint=hint)
    istiods = [name for name in names if name.startswith(ISTIOD)]
    for name in istiods:
        revision_name(name.removeprefix(ISTIOD), flag=f"{ISTIOD}NAME")
    if not istiods:
        hint = f"write {ISTIOD}{names[0]} for the istiod of {names[0]}"
        refuse_unused(f"without {ISTIOD}NAME", *ISTIOD_PARAMETERS, hint=hint)
        return
    refuse_unused(f"with {ISTIOD}NAME", "confirm")
    if len(istiods) == len(names) and istiod.url is not None:
        hint = "leave it out, or write a revision or tag for the other side"
        raise UsageError("--istiod-url is the address of one istiod, and both sides are istiods", hint=hint)


def _check_files(files: WorkloadFiles, kubeconfigs: tuple[Kubeconfig, ...]) -> None:
    if not files.filenames:
        hint = "give -f FILE, -f FOLDER or -f - for stdin, or --live for the workloads of the cluster"
        raise UsageError("no workload is given", hint=hint)
    only_one(kubeconfigs, "without --live")
    refuse_unused("without --live", "confirm", "every")


def _check_live(
    files: WorkloadFiles, sources: RevisionSources, kubeconfigs: tuple[Kubeconfig, ...], *, every: bool, output: str
) -> None:
    if files.filenames:
        raise UsageError("-f and --live exclude each other", hint="give one of the two")
    refuse_unused("with --live", "recursive")
    if every and files.namespace is not None:
        raise UsageError(f"-n and {ALL_FLAG} exclude each other", hint="give one of the two")
    if sources.revisions_dir is not None:
        refuse_unused(f"with {directory_source()}", "istio_namespace")
    if output in REPORTS:
        only_one(kubeconfigs, f"with -o {output}")


def _data(compared: Compared) -> dict[str, Any]:
    old, new = compared.sides
    return {
        "old": old.data(),
        "new": new.data(),
        **comparison_data(compared.comparisons),
        **compared.minor_changes.data(),
    }


def _cells(compared: Compared) -> tuple[str, ...]:
    """Return the row of a table of clusters."""
    comparisons = compared.comparisons
    differing = sum(bool(comparison.changes) for comparison in comparisons)
    refused = sum(isinstance(comparison.new, DataError) for comparison in comparisons)
    return str(len(comparisons)), str(differing), str(refused)


def _warnings(compared: Compared) -> list[str]:
    """Return what breaks between the minors, the pods that both sides refuse, and the findings of a guard that only warns."""
    comparisons, sides = compared.comparisons, compared.sides
    asks = any(side.webhook for side in sides)
    refused = [
        (comparison, f"refused by both: {_both_refusals(comparison, sides) if asks else _refusal(comparison)}")
        for comparison in comparisons
        if isinstance(comparison.old, DataError) and isinstance(comparison.new, DataError)
    ]
    findings = [
        (comparison, f"{side.name}: {_without_values(comparison, finding)}")
        for comparison in comparisons
        for side, answer in zip(sides, (comparison.old, comparison.new), strict=True)
        if isinstance(answer, Injected)
        for finding in answer.findings
    ]
    lines = [f"{comparison.workload}: {text}" for comparison, text in (*refused, *findings)]
    return [*map(escape_line, compared.minor_changes.break_lines()), *lines]


def _refusal(comparison: Comparison) -> str:
    return _without_values(comparison, str(comparison.new))


def _both_refusals(comparison: Comparison, sides: tuple[Side, Side]) -> str:
    answers = (comparison.old, comparison.new)
    texts = [_without_values(comparison, str(answer)) for answer in answers]
    return "; ".join(f"{side.name}: {text}" for side, text in zip(sides, texts, strict=True))


def _messages(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the injector's own messages, each with its workload."""
    lines = (message.line for comparison in comparisons for message in comparison.messages)
    return list(dict.fromkeys(map(escape_line, lines)))


def _message_groups(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a line for each code of the injector's own messages, with a few workloads."""
    by_code: dict[str, list[str]] = {}
    for comparison in comparisons:
        for code in dict.fromkeys(message.code for message in comparison.messages):
            by_code.setdefault(code, []).append(str(comparison.workload))
    return [
        f"[{code}] {count_of(len(names), 'workload')}: {first_of(names, EXAMPLES)}; see `injector explain`"
        for code, names in sorted(by_code.items())
    ]


def _without_values(comparison: Comparison, text: str) -> str:
    return one_line(hiding_of(comparison.pod).without_values(text))


def _text(by_cluster: ByCluster[Compared], output: str) -> str:
    if output in REPORTS:
        (one,) = by_cluster.results.values()
        return REPORTS[output](_data(one), [_workload_text(comparison) for comparison in one.comparisons])
    if output in ("json", "yaml"):
        return data_text(by_cluster.data(_data), output)
    text = by_cluster.sections(lambda compared: _format(compared, output))
    columns = by_cluster.columns("WORKLOADS", "DIFFER", "REFUSED")
    if output == "unified" or "CLUSTER" not in columns:
        return text
    return f"{text}\n{table(columns, by_cluster.rows(lambda compared: [_cells(compared)]))}"


def _format(compared: Compared, output: str) -> str:
    old, new = compared.sides
    comparisons = compared.comparisons
    match output:
        case "text":
            return as_text(comparisons, str(old), str(new))
        case "summary":
            return comparison_summary(comparisons, str(old), str(new))
        case _:
            return "".join(
                _unified_diff(comparison, old.name, new.name) for comparison in comparisons if comparison.changes
            )


def _unified_diff(comparison: Comparison, old: str, new: str) -> str:
    """Return the unified diff of the two pods. A refused pod has no lines, and a pod that is not injected is unchanged.

    Without an answer there is no pod to compare, and the reason stands in its place.
    """
    before, after = (_pod_lines(comparison.pod, answer) for answer in (comparison.old, comparison.new))
    labels = [f"{name}/{comparison.workload}" for name in (old, new)]
    answers = zip((old, new), (comparison.old, comparison.new), strict=True)
    reasons = [f"# {name}: {answer.detail}\n" for name, answer in answers if isinstance(answer, Unanswered)]
    if reasons:
        return "".join((f"--- {labels[0]}\n+++ {labels[1]}\n", *reasons))
    lines = list(difflib.unified_diff(before, after, labels[0], labels[1]))
    if not lines:
        return f"--- {labels[0]}\n+++ {labels[1]}\n# only hidden values differ\n"
    return "".join(lines)


def _pod_lines(created: dict[str, Any], answer: Answer) -> list[str]:
    if isinstance(answer, DataError):
        return []
    pod = answer.pod if isinstance(answer, Injected) else created
    text = dump_yaml(hiding_of(created).pod(pod), fold=False)
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")]


def as_text(comparisons: Sequence[Comparison], old: str, new: str) -> str:
    """Return the workloads that differ with their changes by kind, and a table of the kinds."""
    differing = [comparison for comparison in comparisons if comparison.changes]
    if not differing:
        return _total(comparisons, old, new)
    counts = [(kind, str(workloads), str(changes)) for kind, (workloads, changes) in tally(differing).items()]
    details = "".join(f"{_workload_text(comparison)}\n" for comparison in differing)
    return f"{details}{table(COLUMNS, counts)}\n{_total(comparisons, old, new)}"


def comparison_summary(comparisons: Sequence[Comparison], old: str, new: str) -> str:
    """Return a line with a few examples for each group of workloads, and the number of all workloads."""
    lines = [_group_line(*group) for group in groups(comparisons)]
    return "".join((*lines, "\n" if lines else "", _total(comparisons, old, new)))


def _group_line(kinds: Sequence[str], workloads: Sequence[Created]) -> str:
    only = " only" if len(kinds) == 1 and " " not in kinds[0] else ""
    head = escape_line(f"{len(workloads)} {', '.join(kinds)}{only}")
    return f"{head}: {first_of(list(map(str, workloads)), EXAMPLES)}\n"


def _total(comparisons: Sequence[Comparison], old: str, new: str) -> str:
    differing = sum(bool(comparison.changes) for comparison in comparisons)
    total = count_of(len(comparisons), "workload")
    if not differing:
        return f"no difference in {total} between {old} and {new}\n"
    known = sum(bool(comparison.known) for comparison in comparisons)
    documented = f", {known} as docs/compatibility.md says" if known else ""
    return f"{differing} of {total} differ{'s' if differing == 1 else ''} between {old} and {new}{documented}\n"


def comparison_data(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return the workloads with their changes, a summary and the groups as JSON data.

    A change has no ``old`` or ``new`` if the value is absent on that side. A workload has ``known`` if docs/compatibility.md has the reason
    why a running istiod differs. It has ``file`` and ``line`` if it is from a file, and
    ``refused`` if the new revision refuses its pod. ``messages`` are the injector's own about the pod of the new revision, if any.
    """
    return {
        "workloads": [
            {
                **_workload_data(comparison.workload),
                "podSecurity": {"pod": level_of(comparison.pod), **comparison.levels},
                **(
                    {"refused": _without_values(comparison, str(comparison.new))}
                    if isinstance(comparison.new, DataError)
                    else {}
                ),
                "changes": [_change_data(change) for change in comparison.changes],
                **({"known": comparison.known} if comparison.known else {}),
                **({"messages": [message.data() for message in comparison.messages]} if comparison.messages else {}),
            }
            for comparison in comparisons
        ],
        "summary": {
            kind: {"workloads": workloads, "changes": changes}
            for kind, (workloads, changes) in tally(comparisons).items()
        },
        "groups": [
            {
                "changes": list(kinds),
                "count": len(workloads),
                "workloads": [_workload_data(workload) for workload in workloads],
            }
            for kinds, workloads in groups(comparisons)
        ],
    }


def _workload_data(workload: Created) -> dict[str, Any]:
    place = {"file": workload.file, "line": workload.line} if workload.file else {}
    return {**workload.data(), **place}


def _change_data(change: Change) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    path = {"path": change.path} if change.path else {}
    return {"kind": change.kind, **path, **{side: value for side, value in sides.items() if value is not ABSENT}}


def _workload_text(comparison: Comparison) -> str:
    lines = [str(comparison.workload), *([f"  documented: {comparison.known}"] if comparison.known else [])]
    kind = ""
    for change in comparison.changes:
        if change.kind != kind:
            kind = change.kind
            lines.append(f"  {kind}")
        path = f"{escape_line(change.path)}: " if change.path else ""
        lines.append(f"    {path}{_value_text(change, change.old)} -> {_value_text(change, change.new)}")
    return "".join(f"{line}\n" for line in lines)


def _value_text(change: Change, value: Any) -> str:
    if value is ABSENT:
        return "(none)"
    if change.kind == "order":
        return ", ".join(printable(name) for name in value)
    if change.kind == "containers" and isinstance(value, dict):
        return f"container with image {printable(str(value.get('image', '')))}"
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=True, separators=(", ", ": "))
