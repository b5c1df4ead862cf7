"""Programs of `torch.export` as modules of TorchScript, which the lite interpreter runs.

capture     a module and its example calls -> programs, with the sizes that stay open
trees       arguments and results, as Python nests them and as a model does
state       weights, buffers and constants as attributes, each once
nested      classes of nested values, which torch is told of; copies, for whoever changes a module
whole       operators that stay one; patience, for how long sizes are kept open
emission    nodes of the graph; arithmetic, of sizes; control_flow, branches and loops; grouped,
            products by groups
checks      what a program takes for granted of its inputs, asked when the model runs
int8        PT2E's integers as quantised tensors, and kernels for them (int8_kernels);
            decomposed: the rest as arithmetic
module      `script_module(programs)`: all of it together
"""
