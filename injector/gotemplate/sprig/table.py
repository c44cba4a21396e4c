"""The function map: names, signatures as Go's reflection prints them, and what runs."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.reflect import kind_of, type_of
from injector.gotemplate.sprig import collections as c
from injector.gotemplate.sprig import crypto, dates, semver, url
from injector.gotemplate.sprig import defaults as d
from injector.gotemplate.sprig import numeric as n
from injector.gotemplate.sprig import regex as r
from injector.gotemplate.sprig import strings as t
from injector.gotemplate.sprig.randoms import Expander, Randoms
from injector.gotemplate.values import Func

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from injector.gotemplate.sprig.randoms import Source

_A: Final = "interface {}"
_D: Final = "map[string]interface {}"
_L: Final = "[]interface {}"
_SS: Final = "func(string, string) string"
_SSS: Final = "func(string, string, string) string"

_Row = tuple[str, str, "Callable[..., Any]"]

STRINGS: Final[tuple[_Row, ...]] = (
    ("hello", "func() string", lambda: "Hello!"),
    ("abbrev", "func(int, string) string", t.abbrev),
    ("abbrevboth", "func(int, int, string) string", t.abbrevboth),
    ("trunc", "func(int, string) string", t.trunc),
    ("trim", "func(string) string", t.trim),
    ("upper", "func(string) string", t.upper),
    ("lower", "func(string) string", t.lower),
    ("title", "func(string) string", t.title),
    ("untitle", "func(string) string", t.untitle),
    ("substr", "func(int, int, string) string", t.substr),
    ("repeat", "func(int, string) string", t.repeat),
    ("trimall", _SS, t.trim_all),
    ("trimAll", _SS, t.trim_all),
    ("trimSuffix", _SS, t.trim_suffix),
    ("trimPrefix", _SS, t.trim_prefix),
    ("nospace", "func(string) string", t.nospace),
    ("initials", "func(string) string", t.initials),
    ("swapcase", "func(string) string", t.swapcase),
    ("wrap", "func(int, string) string", t.wrap),
    ("wrapWith", "func(int, string, string) string", t.wrap_with),
    ("contains", "func(string, string) bool", lambda part, text: part in text),
    ("hasPrefix", "func(string, string) bool", lambda prefix, text: text.startswith(prefix)),
    ("hasSuffix", "func(string, string) bool", lambda suffix, text: text.endswith(suffix)),
    ("quote", f"func(...{_A}) string", t.quote),
    ("squote", f"func(...{_A}) string", t.squote),
    ("cat", f"func(...{_A}) string", t.cat),
    ("indent", "func(int, string) string", t.indent),
    ("nindent", "func(int, string) string", t.nindent),
    ("replace", "func(string, string, string) string", t.replace),
    ("plural", "func(string, string, int) string", t.plural),
    ("sha1sum", "func(string) string", t.sha1sum),
    ("sha256sum", "func(string) string", t.sha256sum),
    ("sha512sum", "func(string) string", t.sha512sum),
    ("adler32sum", "func(string) string", t.adler32sum),
    ("toString", f"func({_A}) string", t.strval),
    ("split", "func(string, string) map[string]string", t.split),
    ("splitList", "func(string, string) []string", t.split_list),
    ("splitn", "func(string, int, string) map[string]string", t.splitn),
    ("toStrings", f"func({_A}) []string", t.strslice),
    ("join", f"func(string, {_A}) string", t.join),
    ("b64enc", "func(string) string", t.b64enc),
    ("b64dec", "func(string) string", t.b64dec),
    ("b32enc", "func(string) string", t.b32enc),
    ("b32dec", "func(string) string", t.b32dec),
)

NUMBERS: Final[tuple[_Row, ...]] = (
    ("atoi", "func(string) int", n.atoi),
    ("int64", f"func({_A}) int64", n.to_int64),
    ("int", f"func({_A}) int", n.to_int),
    ("float64", f"func({_A}) float64", n.to_float64),
    ("seq", "func(...int) string", c.seq),
    ("toDecimal", f"func({_A}) int64", n.to_decimal),
    ("until", "func(int) []int", c.until),
    ("untilStep", "func(int, int, int) []int", c.until_step),
    ("add1", f"func({_A}) int64", n.add1),
    ("add", f"func(...{_A}) int64", n.add),
    ("sub", f"func({_A}, {_A}) int64", n.sub),
    ("div", f"func({_A}, {_A}) int64", n.div),
    ("mod", f"func({_A}, {_A}) int64", n.mod),
    ("mul", f"func({_A}, ...{_A}) int64", n.mul),
    ("add1f", f"func({_A}) float64", n.add1f),
    ("addf", f"func(...{_A}) float64", n.addf),
    ("subf", f"func({_A}, ...{_A}) float64", n.subf),
    ("divf", f"func({_A}, ...{_A}) float64", n.divf),
    ("mulf", f"func({_A}, ...{_A}) float64", n.mulf),
    ("biggest", f"func({_A}, ...{_A}) int64", n.biggest),
    ("max", f"func({_A}, ...{_A}) int64", n.biggest),
    ("min", f"func({_A}, ...{_A}) int64", n.smallest),
    ("maxf", f"func({_A}, ...{_A}) float64", n.maxf),
    ("minf", f"func({_A}, ...{_A}) float64", n.minf),
    ("ceil", f"func({_A}) float64", n.ceil),
    ("floor", f"func({_A}) float64", n.floor),
    ("round", f"func({_A}, int, ...float64) float64", n.round_),
)

DEFAULTS: Final[tuple[_Row, ...]] = (
    ("default", f"func({_A}, ...{_A}) {_A}", d.dfault),
    ("empty", f"func({_A}) bool", d.empty),
    ("coalesce", f"func(...{_A}) {_A}", d.coalesce),
    ("all", f"func(...{_A}) bool", d.all_),
    ("any", f"func(...{_A}) bool", d.any_),
    ("fromJson", f"func(string) {_A}", d.from_json),
    ("toJson", f"func({_A}) string", d.to_json),
    ("toPrettyJson", f"func({_A}) string", d.to_pretty_json),
    ("toRawJson", f"func({_A}) string", d.must_to_raw_json),
    ("mustFromJson", f"func(string) ({_A}, error)", d.must_from_json),
    ("mustToJson", f"func({_A}) (string, error)", d.must_to_json),
    ("mustToPrettyJson", f"func({_A}) (string, error)", d.must_to_pretty_json),
    ("mustToRawJson", f"func({_A}) (string, error)", d.must_to_raw_json),
    ("ternary", f"func({_A}, {_A}, bool) {_A}", d.ternary),
    ("deepCopy", f"func({_A}) {_A}", c.deep_copy),
    ("mustDeepCopy", f"func({_A}) ({_A}, error)", c.deep_copy),
    ("typeOf", f"func({_A}) string", type_of),
    ("typeIs", f"func(string, {_A}) bool", d.type_is),
    ("typeIsLike", f"func(string, {_A}) bool", d.type_is_like),
    ("kindOf", f"func({_A}) string", kind_of),
    ("kindIs", f"func(string, {_A}) bool", d.kind_is),
    ("deepEqual", f"func({_A}, {_A}) bool", c.same),
    ("fail", "func(string) (string, error)", d.fail),
)

DICTS: Final[tuple[_Row, ...]] = (
    ("dict", f"func(...{_A}) {_D}", c.make_dict),
    ("get", f"func({_D}, string) {_A}", c.get),
    ("set", f"func({_D}, string, {_A}) {_D}", c.set_),
    ("unset", f"func({_D}, string) {_D}", c.unset),
    ("hasKey", f"func({_D}, string) bool", c.has_key),
    ("pluck", f"func(string, ...{_D}) {_L}", c.pluck),
    ("keys", f"func(...{_D}) []string", c.keys),
    ("pick", f"func({_D}, ...string) {_D}", c.pick),
    ("omit", f"func({_D}, ...string) {_D}", c.omit),
    ("merge", f"func({_D}, ...{_D}) {_A}", c.merge),
    ("mergeOverwrite", f"func({_D}, ...{_D}) {_A}", c.merge_overwrite),
    ("mustMerge", f"func({_D}, ...{_D}) ({_A}, error)", c.merge),
    ("mustMergeOverwrite", f"func({_D}, ...{_D}) ({_A}, error)", c.merge_overwrite),
    ("values", f"func({_D}) {_L}", c.values),
    ("dig", f"func(...{_A}) ({_A}, error)", c.dig),
)


def _pair(name: str, params: str, result: str, call: Callable[..., Any]) -> tuple[_Row, _Row]:
    """Return a function and its ``must`` twin, which returns an error where the plain one panics: the same text here."""
    must = f"must{name[0].upper()}{name[1:]}"
    return (name, f"func({params}) {result}", call), (must, f"func({params}) ({result}, error)", call)


LISTS: Final[tuple[_Row, ...]] = (
    ("tuple", f"func(...{_A}) {_L}", c.make_list),
    ("list", f"func(...{_A}) {_L}", c.make_list),
    ("sortAlpha", f"func({_A}) []string", c.sort_alpha),
    ("concat", f"func(...{_A}) {_A}", c.concat),
    *_pair("append", f"{_A}, {_A}", _L, c.push),
    *_pair("push", f"{_A}, {_A}", _L, c.push),
    *_pair("prepend", f"{_A}, {_A}", _L, c.prepend),
    *_pair("first", _A, _A, c.first),
    *_pair("rest", _A, _L, c.rest),
    *_pair("last", _A, _A, c.last),
    *_pair("initial", _A, _L, c.initial),
    *_pair("reverse", _A, _L, c.reverse),
    *_pair("uniq", _A, _L, c.uniq),
    *_pair("compact", _A, _L, c.compact),
    *_pair("without", f"{_A}, ...{_A}", _L, c.without),
    *_pair("has", f"{_A}, {_A}", "bool", c.has),
    *_pair("slice", f"{_A}, ...{_A}", _A, c.slice_list),
    *_pair("chunk", f"int, {_A}", f"[]{_L}", c.chunk),
)


REGEX: Final[tuple[_Row, ...]] = (
    ("regexMatch", "func(string, string) bool", r.match),
    ("mustRegexMatch", "func(string, string) (bool, error)", r.must_match),
    ("regexFindAll", "func(string, string, int) []string", r.or_panic(r.find_all)),
    ("mustRegexFindAll", "func(string, string, int) ([]string, error)", r.find_all),
    ("regexFind", _SS, r.or_panic(r.find)),
    ("mustRegexFind", "func(string, string) (string, error)", r.find),
    ("regexReplaceAll", _SSS, r.or_panic(r.replace_all)),
    ("mustRegexReplaceAll", "func(string, string, string) (string, error)", r.replace_all),
    ("regexReplaceAllLiteral", _SSS, r.or_panic(r.replace_all_literal)),
    ("mustRegexReplaceAllLiteral", "func(string, string, string) (string, error)", r.replace_all_literal),
    ("regexSplit", "func(string, string, int) []string", r.or_panic(r.split)),
    ("mustRegexSplit", "func(string, string, int) ([]string, error)", r.split),
    ("regexQuoteMeta", "func(string) string", r.quote_meta),
)

OTHERS: Final[tuple[_Row, ...]] = (
    ("snakecase", "func(string) string", t.to_snake_case),
    ("camelcase", "func(string) string", t.to_pascal_case),
    ("kebabcase", "func(string) string", t.to_kebab_case),
    *(
        (name, "func(string) string", call)
        for name, call in (
            ("base", url.base),
            ("dir", url.dir_),
            ("clean", url.clean),
            ("ext", url.ext),
            ("osBase", url.base),
            ("osDir", url.dir_),
            ("osClean", url.clean),
            ("osExt", url.ext),
        )
    ),
    ("isAbs", "func(string) bool", url.is_abs),
    ("osIsAbs", "func(string) bool", url.is_abs),
    ("semver", "func(string) (*semver.Version, error)", semver.semver),
    ("semverCompare", "func(string, string) (bool, error)", semver.semver_compare),
    ("urlParse", f"func(string) {_D}", url.parse),
    ("urlJoin", f"func({_D}) string", url.join),
    ("derivePassword", "func(uint32, string, string, string, string) string", crypto.derive_password),
    ("buildCustomCert", "func(string, string) (sprig.certificate, error)", crypto.build_custom_cert),
    ("decryptAES", "func(string, string) (string, error)", crypto.decrypt_aes),
    ("date_modify", "func(string, time.Time) time.Time", dates.date_modify),
    ("dateModify", "func(string, time.Time) time.Time", dates.date_modify),
    ("must_date_modify", "func(string, time.Time) (time.Time, error)", dates.must_date_modify),
    ("mustDateModify", "func(string, time.Time) (time.Time, error)", dates.must_date_modify),
    ("duration", f"func({_A}) string", dates.duration),
    ("toDate", "func(string, string) time.Time", dates.to_date),
    ("mustToDate", "func(string, string) (time.Time, error)", dates.must_to_date),
    ("unixEpoch", "func(time.Time) string", dates.unix_epoch),
)


_MUTATING: Final = frozenset({"set", "unset", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"})
"""Functions that change the dictionary that they are given."""


def txt_func_map(
    *,
    clock: Callable[[], datetime] = crypto.system_clock,
    environ: Mapping[str, str] | None = None,
    source: Source | None = None,
    lookup: Callable[[str], str] | None = None,
) -> dict[str, Func]:
    """Return sprig's functions by name.

    Args:
        clock: what time it is, for now, ago, date and the certificates.
        environ: what ``env`` and ``expandenv`` read; empty by default, so that no template reads the process's secrets.
        source: randomness; the operating system's by default.
        lookup: what ``getHostByName`` asks; by default it answers nothing and touches no network.
    """
    hermetic = (*STRINGS, *NUMBERS, *DEFAULTS, *DICTS, *LISTS, *REGEX, *OTHERS)
    functions = {name: Func(name, signature, call, mutates=name in _MUTATING) for name, signature, call in hermetic}
    for name, signature, call in _non_hermetic(clock, environ or {}, source or SystemRandom(), lookup or _no_answer):
        functions[name] = Func(name, signature, call, hermetic=False)
    return functions


def _no_answer(_name: str) -> str:
    return ""


def _non_hermetic(
    clock: Callable[[], datetime], environ: Mapping[str, str], source: Source, lookup: Callable[[str], str]
) -> Iterator[_Row]:
    by_clock, random, authority = dates.Dates(clock), Randoms(source), crypto.Authority(clock)
    yield "now", "func() time.Time", by_clock.now
    yield "ago", f"func({_A}) string", by_clock.ago
    yield "date", f"func(string, {_A}) string", by_clock.date
    yield "date_in_zone", f"func(string, {_A}, string) string", by_clock.date_in_zone
    yield "dateInZone", f"func(string, {_A}, string) string", by_clock.date_in_zone
    yield "htmlDate", f"func({_A}) string", by_clock.html_date
    yield "htmlDateInZone", f"func({_A}, string) string", by_clock.html_date_in_zone
    yield "durationRound", f"func({_A}) string", by_clock.duration_round
    yield "env", "func(string) string", lambda name: environ.get(name, "")
    yield "expandenv", "func(string) string", Expander(environ).expand
    yield "getHostByName", "func(string) string", lookup
    yield "randAlphaNum", "func(int) string", random.alpha_num
    yield "randAlpha", "func(int) string", random.alpha
    yield "randAscii", "func(int) string", random.ascii
    yield "randNumeric", "func(int) string", random.numeric
    yield "randInt", "func(int, int) int", random.integer
    yield "randBytes", "func(int) (string, error)", random.raw
    yield "uuidv4", "func() string", random.uuid
    yield "shuffle", "func(string) string", random.shuffle
    yield "bcrypt", "func(string) string", crypto.bcrypt
    yield "htpasswd", _SS, crypto.htpasswd
    yield "encryptAES", "func(string, string) (string, error)", crypto.Encrypter(source.randbytes).encrypt
    yield "genPrivateKey", "func(string) string", crypto.gen_private_key
    cert = "(sprig.certificate, error)"
    yield "genCA", f"func(string, int) {cert}", authority.ca
    yield "genCAWithKey", f"func(string, int, string) {cert}", authority.ca_with_key
    yield "genSelfSignedCert", f"func(string, {_L}, {_L}, int) {cert}", authority.self_signed
    yield "genSelfSignedCertWithKey", f"func(string, {_L}, {_L}, int, string) {cert}", authority.self_signed_with_key
    yield "genSignedCert", f"func(string, {_L}, {_L}, int, sprig.certificate) {cert}", authority.signed
    yield (
        "genSignedCertWithKey",
        f"func(string, {_L}, {_L}, int, sprig.certificate, string) {cert}",
        authority.signed_with_key,
    )
