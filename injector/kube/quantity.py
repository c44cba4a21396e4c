"""Resource quantities: ``100m``, ``1Gi``, ``0.5``, ``1e3``.

Follows k8s.io/apimachinery pkg/api/resource (v0.35: quantity.go, suffix.go, amount.go): what a quantity amounts to, and
how Go writes it when it has read it. Its habits are kept: a text that looks canonical is written as it was given
(``1.500``), exponents without a suffix of their own lose it, and only binary quantities are capped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from injector.errors import DataError

Form = Literal["decimal", "binary", "exponent"]

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?+)(?P<zeros>0*+)(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?(?P<suffix>[eEinumkKMGTP]*+[+-]?+[0-9]*+)",
    re.ASCII,
)
_EXPONENT = re.compile(r"[eE](?P<power>[+-]?[0-9]+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: "", **{power: suffix for suffix, power in _BINARY.items()}}
_MAX: Final = 2**63 - 1
_NANO: Final = -9
_KIBI: Final = 1024
_FAST_DIGITS: Final = 18  # digits that surely fit an int64 (math.go, maxInt64Factors)
_FAST_BINARY_DIGITS: Final = 15
_MAX_DIGITS: Final = 1_000  # Python refuses to convert 4,300
_HINT: Final = "write a quantity such as 100m, 0.5 or 1Gi"
_FORMAT_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_ERROR: Final = "unable to parse quantity's suffix"
_NUMBER_ERROR: Final = "unable to parse numeric part of quantity"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """``value`` times ten to the ``scale``; ``text`` is how it is written, where it was given canonically."""

    value: int
    scale: int
    form: Form
    text: str = ""


def parse_quantity(text: str) -> Decimal:
    """Return the amount, exact to a billionth (rounded away from zero), and capped at what an int64 holds.

    Raises DataError with apimachinery's words if it is not a quantity.
    """
    quantity = _parse(text)
    if quantity.value == 0:
        return Decimal(0)
    if len(str(quantity.value)) + quantity.scale > len(str(_MAX)) + 1:
        return Decimal(_MAX if quantity.value > 0 else -_MAX)
    amount = Decimal(quantity.value).scaleb(quantity.scale)
    return max(Decimal(-_MAX), min(amount, Decimal(_MAX)))


def canonical_quantity(text: str) -> str:
    """Return a quantity as Go writes it: ``1000m`` is ``1``, ``1024Mi`` is ``1Gi``, ``0.1`` is ``100m``. Raises DataError."""
    quantity = _parse(text)
    return quantity.text or _canonical(quantity)


def _parse(text: str) -> _Quantity:
    match = _QUANTITY.fullmatch(text)
    if match is None or not text:
        raise DataError(_FORMAT_ERROR, hint=_HINT)
    power, form = _interpret(match["suffix"])
    digits, places = (match["whole"] or "0") + (match["fraction"] or ""), len(match["fraction"] or "")
    if len(digits) > _MAX_DIGITS:
        raise DataError(_NUMBER_ERROR, hint=_HINT)
    sign = -1 if match["sign"] == "-" else 1
    value, scale = (int(digits) << power, -places) if form == "binary" else (int(digits), power - places)
    # What Go computes in an int64 keeps a text that looks canonical.
    if form == "binary":
        is_fast = not places and len(digits) + power * 3 // 10 < _FAST_BINARY_DIGITS
        is_canonical = int(digits) & 7 != 0
    else:
        is_fast = len(digits) <= _FAST_DIGITS and scale >= _NANO
        is_canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if is_fast and value <= _MAX:
        return _Quantity(sign * value, scale, form, text if is_canonical else "")
    if not (match["zeros"] or match["whole"] or match["fraction"]):
        raise DataError(_NUMBER_ERROR, hint=_HINT)
    value, scale, form = _limit(value, scale, form)
    return _Quantity(sign * value, scale, form)


def _interpret(suffix: str) -> tuple[int, Form]:
    """Return the power that a suffix stands for, of two for binary quantities and of ten for others."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "decimal"
    if suffix in _BINARY:
        return _BINARY[suffix], "binary"
    match = _EXPONENT.fullmatch(suffix)
    power = int(match["power"]) if match is not None and len(match["power"]) <= _MAX_DIGITS else _MAX + 1
    if not -_MAX - 1 <= power <= _MAX:
        raise DataError(_SUFFIX_ERROR, hint=_HINT)
    # Go keeps the low 32 bits.
    return (power + 2**31) % 2**32 - 2**31, "exponent"


def _limit(value: int, scale: int, form: Form) -> tuple[int, int, Form]:
    """Return a quantity that Go does not compute in an int64, rounded up to a billionth, and capped if it is binary."""
    if value and scale < _NANO:
        # A quantity that is not zero is at least a billionth.
        dropped = _NANO - scale
        value = -(-value // 10**dropped) if dropped < len(str(value)) else 1
        scale = _NANO
    if form == "binary":
        whole, rest = (value * 10**scale, 0) if scale >= 0 else divmod(value, 10**-scale)
        if whole > _MAX or (whole == _MAX and rest):
            value, scale = _MAX, 0
        elif not whole and rest:
            form = "decimal"
    return value, scale, form


def _canonical(quantity: _Quantity) -> str:
    if quantity.value == 0:
        return "0"
    value, scale = _without_factors(quantity.value, 10, quantity.scale)
    if quantity.form == "binary" and scale >= 0:
        whole = value * 10**scale
        if not -_KIBI < whole < _KIBI:
            whole, thousands = _without_factors(whole, _KIBI, 0)
            return f"{whole}{_BINARY_SUFFIX.get(thousands * 10, '')}"
    digits, power = value * 10 ** (scale % 3), scale - scale % 3
    if quantity.form == "exponent":
        return f"{digits}e{power}" if power else str(digits)
    return f"{digits}{_DECIMAL_SUFFIX.get(power, '')}"


def _without_factors(value: int, base: int, power: int) -> tuple[int, int]:
    while value % base == 0:
        value //= base
        power += 1
    return value, power
