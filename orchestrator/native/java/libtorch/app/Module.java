package libtorch.app;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A loaded model.
 *
 * <p>Different modules may run at once. Calls of one module wait for each other.
 */
public final class Module implements AutoCloseable {
  private final Handle handle;
  private final Object running = new Object();

  private Module(long address) {
    this.handle = Handle.ofModule(this, address);
  }

  /**
   * Loads a {@code .ptl} file.
   *
   * @param path the file; an asset of an Android app is not one, see {@link #load(ByteBuffer)}
   * @return the model
   * @throws LibtorchException if it cannot be loaded; with {@link Status#MISSING_OPERATOR} and all the names, if it uses
   *     operators that this library does not have
   */
  public static Module load(String path) {
    return new Module(Native.load(Native.bytes(path)));
  }

  /**
   * Loads a model from memory.
   *
   * @param data the content of a {@code .ptl} file; it is not kept
   * @return the model
   * @throws LibtorchException as {@link #load(String)}
   */
  public static Module load(byte[] data) {
    if (data == null) {
      throw new NullPointerException("data");
    }
    return new Module(Native.loadBytes(data));
  }

  /**
   * Loads a model from a buffer, such as one that {@code FileChannel.map} gave: nothing is copied first.
   *
   * @param data the content of a {@code .ptl} file from position to limit; it is not kept, and its position not changed
   * @return the model
   * @throws LibtorchException as {@link #load(String)}
   */
  public static Module load(ByteBuffer data) {
    if (data.isDirect()) {
      return new Module(Native.loadBuffer(data, data.position(), data.remaining()));
    }
    byte[] copy = new byte[data.remaining()];
    data.duplicate().get(copy);
    return load(copy);
  }

  /**
   * Runs the method "forward".
   *
   * @param arguments what the method takes
   * @return what it gives, a {@link Tensor} where that is one; the caller closes it
   * @throws LibtorchException if the model, or an operator in it, refuses the arguments
   */
  public Value forward(Value... arguments) {
    return run("forward", arguments);
  }

  /**
   * Runs a method.
   *
   * @param method one of {@link #methods}
   * @param arguments what the method takes
   * @return what it gives, a {@link Tensor} where that is one; the caller closes it
   * @throws LibtorchException if there is no such method, or the model, or an operator in it, refuses the arguments
   */
  public Value run(String method, Value... arguments) {
    byte[] name = Native.bytes(method);
    Value[] values = arguments.clone();
    long[] addresses = Value.acquire(values);
    try {
      long module = handle.acquire();
      try {
        synchronized (running) {
          return Value.adopt(Native.run(module, name, addresses));
        }
      } finally {
        handle.release();
      }
    } finally {
      Value.release(values, values.length);
    }
  }

  /**
   * The methods that can be run.
   *
   * @return their names, in the order of the model file
   */
  public List<String> methods() {
    long module = handle.acquire();
    try {
      List<String> names = new ArrayList<String>();
      for (byte[] name : Native.methods(module)) {
        names.add(Native.text(name));
      }
      return Collections.unmodifiableList(names);
    } finally {
      handle.release();
    }
  }

  /**
   * The version of the model's bytecode.
   *
   * @return such as 8
   */
  public long bytecodeVersion() {
    long module = handle.acquire();
    try {
      return Native.bytecodeVersion(module);
    } finally {
      handle.release();
    }
  }

  /** Frees the model, at the end of a call that still runs. */
  @Override
  public void close() {
    handle.close();
  }
}
