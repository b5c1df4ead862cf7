"""The classes of `org.pytorch`, as far as they need no native library, on a JVM."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from orchestrator.deliver.files import File
from orchestrator.packagers.aar_java import compile_java, find_java_compiler, java_sources

# In their package, where it sees what a model's results are made of.
PROGRAM = """
package org.pytorch;

import java.nio.FloatBuffer;

final class Program {
  private static final IValue EMPTY = IValue.given(new IValue[0]);

  public static void main(String[] arguments) {
    lists();
    sizes();
    buffers();
  }

  private static void lists() {
    IValue longs = IValue.listFrom(1L);
    print("nested", IValue.listFrom(EMPTY, longs, EMPTY).toList().length);
    IValue none = IValue.emptyDict();
    print("of dictionaries", IValue.listFrom(none, none).toList().length);
    print("none", IValue.listFrom(new IValue[0]).toList().length);
    thrown(() -> IValue.listFrom(longs, EMPTY, IValue.listFrom(0.5)));
    thrown(() -> IValue.listFrom(longs, none));
    thrown(() -> IValue.listFrom(EMPTY, IValue.from(1L)));
  }

  private static void sizes() {
    long large = 1L << 40;
    print("no element", Tensor.numel(new long[] {large, large, 0}));
    print("many", Tensor.numel(new long[] {large, 1L << 22}));
    thrown(() -> Tensor.numel(new long[] {large, large}));
    thrown(() -> Tensor.numel(new long[] {0, -1}));
  }

  private static void buffers() {
    FloatBuffer own = Tensor.allocateFloatBuffer(2);
    Tensor view = Tensor.fromBlob(own.asReadOnlyBuffer(), new long[] {2});
    Tensor before = view.writable();
    own.put(1, 7);
    print("a copy", before.getDataAsFloatArray()[1]);
    print("the next call's", view.writable().getDataAsFloatArray()[1]);
    Tensor same = Tensor.fromBlob(own, new long[] {2});
    print("no copy", same.writable() == same);
  }

  private static void print(String what, Object seen) {
    System.out.println(what + ": " + seen);
  }

  private static void thrown(Runnable call) {
    try {
      call.run();
      System.out.println("nothing");
    } catch (RuntimeException error) {
      System.out.println(error);
    }
  }
}
"""
ILLEGAL = "java.lang.IllegalArgumentException: "
EXPECTED = f"""\
nested: 3
of dictionaries: 2
none: 0
{ILLEGAL}List must contain items of the same type
{ILLEGAL}List must contain items of the same type
{ILLEGAL}List must contain items of the same type
no element: 0
many: 4611686018427387904
{ILLEGAL}Shape has more elements than a long can count: [1099511627776, 1099511627776]
{ILLEGAL}Shape elements must be non negative
a copy: 0.0
the next call's: 7.0
no copy: true
"""


def test_what_needs_no_library(tmp_path: Path) -> None:
    compiler = find_java_compiler(os.environ)
    assert compiler
    sources = java_sources("toy", "toy_torch", ["arm64-v8a"], "org.pytorch")
    program = File("org/pytorch/Program.java", PROGRAM.encode())
    for one in compile_java((*sources, program), compiler):
        path = tmp_path / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        one.write(path)
    java = Path(compiler.program).with_name("java")
    argv = [str(java), "-cp", str(tmp_path), "org.pytorch.Program"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == EXPECTED
