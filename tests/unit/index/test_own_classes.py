"""The TorchBind classes that a preprocessed unit registers, and the methods that they have."""

from __future__ import annotations

import pytest

from orchestrator.index.own_classes import own_classes_of
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.own_sources import OwnClass

# torch/custom_class.h, which every such unit has read
HEADER = """
inline class_<CurClass> selective_class_(const std::string& name);
explicit class_(const std::string& namespaceName, const std::string& className)
: class_base(namespaceName, className, typeid(c10::intrusive_ptr<CurClass>)) {}
"""
BLOCK = """
static void TORCH_LIBRARY_FRAGMENT_init_my_ink_12(torch::Library&);
void TORCH_LIBRARY_FRAGMENT_init_my_ink_12(torch::Library& m) {
  %s
}
"""
PICKLED = """
  .def_pickle(
      [](const c10::intrusive_ptr<Old>& self) -> State { f.def("no"); return {1'000, ";)"}; },
      [](State state) { return make(R"x(";))x", ')', state); })
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER, ()),
        (BLOCK % 'm.class_<Pen<int>>("Pen").def("x", &Pen::x);', OwnClass("my_ink.Pen", ("x",))),
        (
            'static auto old = torch::class_<Old>("older", "Old")'
            '.def(torch::init<int>()).def("go", &f).def_static("make", &g)'
            + PICKLED
            + '.def_property("w", &w).def_readwrite("h", &Old::h);',
            OwnClass(
                "older.Old",
                (
                    *("__getstate__", "__init__", "__setstate__", "go", "h_getter", "h_setter"),
                    *("make", "w_getter", "w_setter"),
                ),
            ),
        ),
        # TORCH_SELECTIVE_CLASS("Pen")
        (
            BLOCK % "m.class_<Pen>(torch::detail::SelectiveStr<c10::impl::custom_class_allowlist"
            '_check("Pen")>("Pen")).def("x", &Pen::x);',
            OwnClass("my_ink.Pen", ("x",)),
        ),
        ('torch::class_<Pen> pen("ink", "Pen");', OwnClass("ink.Pen", ())),
    ],
)
def test_own_classes(text: str, expected: OwnClass | tuple[()]) -> None:
    found = own_classes_of(HEADER + text, DIALECT.symbols)
    assert found == ((expected,) if expected else ())


@pytest.mark.parametrize(
    "text",
    [
        # further methods, on the variable that was named
        'auto pen = m.class_<Pen>("Pen").def("x", &x); pen.def("y", &y);',
        'torch::class_<Pen> pen("ink", "Pen"); more(pen);',
        # nobody knows what becomes of it
        'return m.class_<Pen>("Pen").def("x", &x);',
        'more(m.class_<Pen>("Pen").def("x", &x));',
        # names that are not written out
        'm.class_<Pen>("Pen").def(NAME, &x);',
        'm.class_<Pen>("Pen").def("x" SUFFIX, &x);',
        'm.class_<Pen>("Pen").def_backend("x");',
        # cut off
        'm.class_<Pen>("Pen").def("x", &x',
    ],
)
def test_a_class_that_may_have_other_methods(text: str) -> None:
    (found,) = own_classes_of(BLOCK % text, DIALECT.symbols)
    assert found.is_open
    assert found.may_have("anything")
