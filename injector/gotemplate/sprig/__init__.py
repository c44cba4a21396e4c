"""Every function of Masterminds/sprig v3.3.0's TxtFuncMap, under its own names and with its own signatures.

It promises sprig's results and error texts. Functions that depend on more than their arguments (clock, environment, randomness) are
marked so and take those from the caller; none reads the process's environment or the network on its own.
"""

from injector.gotemplate.sprig.table import txt_func_map

__all__ = ["txt_func_map"]
