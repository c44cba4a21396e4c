"""Numbers (sprig's numeric.go, conversions as spf13/cast does them, decimal arithmetic as shopspring/decimal)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, DivisionByZero, InvalidOperation, localcontext
from functools import partial, reduce
from typing import Any, Final

from injector.golang import strconv
from injector.golang.strconv import parse_float, parse_int
from injector.gotemplate import costs
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import Int64, Pointer

FUNCTIONS: Final = FuncMap()

_INT64: Final = 2**63
_OCTAL = re.compile(r"[+-]?[0-7]+", re.ASCII)
# What spf13/cast ignores at the end of an integer.
_ZERO_FRACTION = re.compile(r"\.0+\Z")
_DIVISION_PLACES: Final = 16
_NAMED_FLOATS: Final = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}


def wrap_int64(number: int) -> Int64:
    """Return a number as int64, wrapped around as Go's arithmetic does."""
    return Int64((number + _INT64) % (2 * _INT64) - _INT64)


def to_int64(value: Any) -> Int64:
    """Return a value, or that of a pointer, as int64, 0 if it is not a number."""
    if isinstance(value, bool):
        return Int64(value)
    if isinstance(value, float):
        return wrap_int64(int(value)) if math.isfinite(value) and abs(value) < _INT64 else Int64(-_INT64)
    if isinstance(value, int):
        return wrap_int64(int(value))
    if isinstance(value, str):
        number = parse_int(_ZERO_FRACTION.sub("", value))
        return Int64(number) if number is not None and -_INT64 <= number < _INT64 else Int64(0)
    return to_int64(value.target) if isinstance(value, Pointer) else Int64(0)


def to_int(value: Any) -> int:
    """Return a value as int."""
    return int(to_int64(value))


def to_float64(value: Any) -> float:
    """Return a value, or that of a pointer, as float64, 0 if it is not a number."""
    if isinstance(value, Pointer):
        return to_float64(value.target)
    if isinstance(value, str):
        number = _NAMED_FLOATS.get(value.lower()) or parse_float(value)
        return 0.0 if number is None else number
    return float(value) if isinstance(value, int | float) else 0.0


def atoi(text: str) -> int:
    """Return the value of a decimal integer, 0 if the text is not one."""
    return strconv.atoi(text)[0]


def to_decimal(value: Any) -> Int64:
    """Return an octal number's value, 0 if the text is not one."""
    text = sprint(value)
    number = int(text, 8) if _OCTAL.fullmatch(text) else 0
    return Int64(number) if -_INT64 <= number < _INT64 else Int64(0)


def _product(first: Any, *others: Any) -> Int64:
    return reduce(lambda product, value: wrap_int64(product * to_int64(value)), others, to_int64(first))


def _div(left: Any, right: Any) -> Int64:
    """Return an integer quotient, cut towards zero."""
    dividend, divisor = int(to_int64(left)), int(to_int64(right))
    if divisor == 0:
        raise FuncError("runtime error: integer divide by zero")
    quotient = abs(dividend) // abs(divisor)
    return wrap_int64(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def _mod(left: Any, right: Any) -> Int64:
    """Return the remainder of an integer division, with the dividend's sign."""
    return wrap_int64(to_int64(left) - to_int64(right) * _div(left, right))


def _decimal(operation: Callable[[Decimal, Decimal], Decimal], first: Any, *others: Any) -> float:
    with localcontext() as context:
        context.prec = 400  # more than the 309 digits of the largest float and 16 places
        result = _finite(first)
        for value in others:
            operand = _finite(value)
            try:
                result = operation(result, operand)
            except (DivisionByZero, InvalidOperation):
                raise FuncError("decimal division by 0") from None
        # Go's decimals have no negative zero.
        return float(result) or 0.0


def _finite(value: Any) -> Decimal:
    number = to_float64(value)
    if not math.isfinite(number):
        raise FuncError(f"Cannot create a Decimal from {sprint(number)}")
    return Decimal(repr(number))


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    return round(left / right, _DIVISION_PLACES)


def maxf(*values: Any) -> float:
    """Return the largest number; NaN counts as larger than any number but infinity."""
    numbers = [to_float64(value) for value in values]
    if math.inf in numbers:
        return math.inf
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)


def minf(*values: Any) -> float:
    """Return the smallest number; NaN counts as smaller than any number but infinity."""
    return -maxf(*(-to_float64(value) for value in values))


def _round(rounding: Callable[[float], int], value: Any) -> float:
    number = to_float64(value)
    return math.copysign(rounding(number), number) if math.isfinite(number) else number


def round_(value: Any, places: int, *threshold: float) -> float:
    """Return a number rounded to decimal places; a fraction from ``threshold`` (a half) on goes up."""
    number = to_float64(value)
    power = math.pow(10, places) if abs(places) < 300 else math.inf  # noqa: PLR2004 - a float64's range
    digit = power * number
    if not math.isfinite(digit):
        return math.nan if math.isinf(power) else digit
    fraction = math.modf(digit)[0]
    rounded = math.ceil(digit) if fraction >= (threshold[0] if threshold else 0.5) else math.floor(digit)
    return math.copysign(rounded, digit) / power if rounded == 0 else rounded / power


_ONE: Final = "interface {}"
_MANY: Final = "...interface {}"
for _names, _signature, _call in (
    ("int64", f"func({_ONE}) int64", to_int64),
    ("int", f"func({_ONE}) int", to_int),
    ("float64", f"func({_ONE}) float64", to_float64),
    ("atoi", "func(string) int", atoi),
    ("toDecimal", f"func({_ONE}) int64", to_decimal),
    ("add", f"func({_MANY}) int64", lambda *values: wrap_int64(sum(map(to_int64, values)))),
    ("add1", f"func({_ONE}) int64", lambda value: wrap_int64(to_int64(value) + 1)),
    ("sub", f"func({_ONE}, {_ONE}) int64", lambda left, right: wrap_int64(to_int64(left) - to_int64(right))),
    ("mul", f"func({_ONE}, {_MANY}) int64", _product),
    ("div", f"func({_ONE}, {_ONE}) int64", _div),
    ("mod", f"func({_ONE}, {_ONE}) int64", _mod),
    ("biggest max", f"func({_ONE}, {_MANY}) int64", lambda *values: max(map(to_int64, values))),
    ("min", f"func({_ONE}, {_MANY}) int64", lambda *values: min(map(to_int64, values))),
    ("addf", f"func({_MANY}) float64", partial(_decimal, Decimal.__add__, 0.0)),
    ("add1f", f"func({_ONE}) float64", partial(_decimal, Decimal.__add__, 1.0)),
    ("subf", f"func({_ONE}, {_MANY}) float64", partial(_decimal, Decimal.__sub__)),
    ("mulf", f"func({_ONE}, {_MANY}) float64", partial(_decimal, Decimal.__mul__)),
    ("divf", f"func({_ONE}, {_MANY}) float64", partial(_decimal, _quotient)),
    ("maxf", f"func({_ONE}, {_MANY}) float64", maxf),
    ("minf", f"func({_ONE}, {_MANY}) float64", minf),
    ("ceil", f"func({_ONE}) float64", partial(_round, math.ceil)),
    ("floor", f"func({_ONE}) float64", partial(_round, math.floor)),
    ("round", f"func({_ONE}, int, ...float64) float64", round_),
):
    FUNCTIONS.define(_signature, *_names.split(), cost=costs.NUMBERS)(_call)
