"""Numbers that keep their digits: exact ones (`Decimal`) among each other, and beside floats."""

from __future__ import annotations

from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    localcontext,
)
from typing import Any, Final

from noetl.expressions.limits import Broken

#: Digits of sums and products: more than any two numbers of a database have together.
_EXACT: Final = Context(prec=40_000)
#: Digits of a quotient beyond those of its operands.
_MORE: Final = 34
_ROUNDED: Final = frozenset({"/", "**"})
_ROUNDINGS: Final = {"common": ROUND_HALF_EVEN, "ceil": ROUND_CEILING, "floor": ROUND_FLOOR}


def compute_exactly(sign: str, left: Any, right: Any, function: Callable[[Any, Any], Any]) -> Any:
    """`function(left, right)`, one of which is a Decimal. No digit is lost but by division and
    powers, which have 34 more than their operands. Raises Broken, and what `function` raises."""
    with localcontext(_context(sign, left, right)):
        try:
            return function(left, right)
        except DecimalException as error:
            # The remainder of a division by zero is an invalid operation to Python.
            cause = "division by zero" if not right else f"the numbers of '{sign}' are too large"
            raise Broken(f"cannot be computed: {cause}") from error


def _context(sign: str, left: Any, right: Any) -> Context:
    if sign not in _ROUNDED:
        return _EXACT
    most = max(
        len(Decimal(side).as_tuple().digits) for side in (left, right) if isinstance(side, int | Decimal)
    )
    return Context(prec=most + _MORE)


def round_exactly(value: Decimal, precision: int, method: str) -> Decimal:
    """`value | round(precision, method)`. Raises Broken."""
    if method not in _ROUNDINGS:
        raise Broken(f"cannot round by '{method[:20]}'; common, ceil and floor are known")
    if precision >= -int(value.as_tuple().exponent):
        return value
    return value.quantize(Decimal(1).scaleb(-precision), _ROUNDINGS[method], _EXACT)
