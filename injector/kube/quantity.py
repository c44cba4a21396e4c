"""Resource quantities: ``100m``, ``1Gi``, ``0.5``, ``1e3``.

Follows k8s.io/apimachinery pkg/api/resource (quantity.go, suffix.go, v0.35): what a quantity parses to and how it prints in canonical
form, which is what Go writes back when it has read one.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Final

from injector.errors import DataError

_QUANTITY = re.compile(r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?P<suffix>[a-zA-Z]*|[eE][+-]?[0-9]+)", re.ASCII)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_BY_POWER: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_DOWN: Final = sorted(_BINARY.items(), key=lambda item: -item[1])
_MAX: Final = Decimal(2**63 - 1)
_NANO: Final = Decimal(1).scaleb(-9)
_FORMAT_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMBER_ERROR: Final = "unable to parse numeric part of quantity"
_SUFFIX_ERROR: Final = "unable to parse quantity's suffix"


def parse_quantity(text: str) -> Decimal:
    """Return the amount, exact to a billionth (rounded away from zero) and at most 2**63-1.

    Raises:
        DataError: it is no quantity; with apimachinery's words.
    """
    return _parse(text)[0]


def canonical_quantity(text: str) -> str:
    """Return a quantity in canonical form: ``1000m`` is ``1``, ``1024Mi`` is ``1Gi``, ``0.1`` is ``100m``.

    Raises:
        DataError: it is no quantity.
    """
    amount, form = _parse(text)
    if form == "binary":
        return _binary_text(amount)
    return _exponent_text(amount) if form == "exponent" else _decimal_text(amount)


def _parse(text: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise DataError(_FORMAT_ERROR)
    number, suffix = Decimal(match["number"]), match["suffix"]
    with localcontext() as context:
        context.prec = 60
        if suffix in _BINARY:
            return _bounded(number * (1 << _BINARY[suffix])), "binary"
        if suffix in _DECIMAL:
            return _bounded(number.scaleb(_DECIMAL[suffix])), "decimal"
        if suffix[:1] in ("e", "E") and suffix[1:]:
            return _bounded(number.scaleb(_exponent(suffix[1:]))), "exponent"
    raise DataError(_SUFFIX_ERROR)


def _exponent(text: str) -> int:
    try:
        power = int(text)
    except ValueError:
        raise DataError(_SUFFIX_ERROR) from None
    return max(-100, min(power, 100))


def _bounded(amount: Decimal) -> Decimal:
    rounded = amount.quantize(_NANO, ROUND_CEILING if amount > 0 else ROUND_FLOOR) if abs(amount) < _MAX else amount
    return max(-_MAX, min(rounded, _MAX))


def _binary_text(amount: Decimal) -> str:
    if -1024 < amount < 1024:  # noqa: PLR2004 - below one Ki, decimal form is canonical
        return _decimal_text(amount)
    whole = int(amount.to_integral_value(ROUND_CEILING if amount > 0 else ROUND_FLOOR))
    for suffix, power in _BINARY_DOWN:
        if whole % (1 << power) == 0:
            return f"{whole >> power}{suffix}"
    return str(whole)


def _decimal_text(amount: Decimal) -> str:
    digits, power = _digits(amount)
    return f"{digits}{_DECIMAL_BY_POWER[power]}"


def _exponent_text(amount: Decimal) -> str:
    digits, power = _digits(amount)
    return f"{digits}e{power}" if power else digits


def _digits(amount: Decimal) -> tuple[str, int]:
    """Return the integer and the power of a thousand that together are ``amount``, the power as large as may be."""
    for power in range(18, -12, -3):
        scaled = amount.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return str(int(scaled)), power if scaled else 0
    raise AssertionError("an amount is whole at a billionth")
