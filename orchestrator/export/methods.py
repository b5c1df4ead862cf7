"""The methods of a TorchScript module that are its own."""

from __future__ import annotations

import re
from typing import Any

# What torch/utils/bundled_inputs.py adds to a model; as in models/methods.py.
_BUNDLING = re.compile(
    r"_generate_bundled_inputs(_for_\w+)?|get_all_bundled_inputs(_for_\w+)?"
    r"|get_num_bundled_inputs|get_bundled_inputs_functions_and_info|_inflate_helper_\w+"
)


def methods_of(module: Any) -> list[str]:
    return [name for name in module._c._method_names() if not _BUNDLING.fullmatch(name)]
