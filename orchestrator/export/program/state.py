"""Weights, buffers and constants of programs as attributes of one module, each tensor once."""

from __future__ import annotations

import re
from typing import Any

import torch


class Attributes:
    """The attributes of a module that is being made.

    Tensors that are the same memory, seen the same way, become one attribute: tied weights, and
    those of several methods. They share that memory with whom they come from. What is written is
    one by its name: each method was captured of a copy of the module, with a state of its own.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()

    def of(self, tensor: torch.Tensor, name: str, written: bool) -> str:
        """The attribute that holds a tensor; it is made where there is none, with about this
        name. written: it holds a copy."""
        tensor = tensor.detach()
        its = name if written else _identity(tensor)
        if its not in self.names:
            tensor = tensor.clone() if written else tensor
            chosen = self._free(re.sub(r"\W", "_", name))
            self.module._register_attribute(chosen, torch._C.TensorType.get(), tensor)
            self.names[its] = chosen
        return self.names[its]

    def of_object(self, what: Any, name: str) -> str:
        """The attribute that holds an object, or a tensor, of a graph's own."""
        if isinstance(what, torch.Tensor):
            return self.of(what, name, False)
        chosen = self._free(name)
        self.module._register_attribute(chosen, what._type(), what)
        return chosen

    def _free(self, name: str) -> str:
        # what begins with a letter is no name of TorchScript's own
        name = name if name[:1].isalpha() else f"w{name}"
        chosen, number = name, 1
        while chosen in self.taken or hasattr(self.module, chosen):
            chosen, number = f"{name}_{number}", number + 1
        self.taken.add(chosen)
        return chosen


def _identity(tensor: torch.Tensor) -> Any:
    if not tensor.numel():
        return object()
    return (
        *(tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()),
        _reading(tensor) if tensor.is_quantized else None,
    )


def _reading(tensor: torch.Tensor) -> Any:
    """Return the quantisation parameters of a tensor."""
    if tensor.qscheme() == torch.per_tensor_affine:
        return tensor.q_scale(), tensor.q_zero_point()
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return tensor.q_per_channel_axis(), *scales.tolist(), *zeros.tolist()
