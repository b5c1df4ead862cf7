package libtorch.app;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
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
   * @throws LibtorchException as {@link #run}
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
   * @throws LibtorchException with {@link Status#NO_SUCH_METHOD} if there is no such method; with {@link
   *     Status#INVALID_ARGUMENT} or {@link Status#WRONG_KIND} if number or kinds of the arguments are not those of its
   *     {@link #schema}; and if the model, or an operator in it, refuses them
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
      } catch (LibtorchException failure) {
        if (failure.status() != Status.RUN_FAILED && failure.status() != Status.MISSING_DTYPE) {
          throw failure;
        }
        // What an operator wanted is told without the argument that it is about.
        String given = Arrays.toString(values);
        throw failure.of(method + "(" + given.substring(1, given.length() - 1) + ")");
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
   * What a method takes and gives.
   *
   * @param method one of {@link #methods}
   * @return such as {@code forward(Tensor image, float scale=...) -> Tensor}; what has a default, or is optional, may be
   *     left out of a call. A model of bytecode version 4 may not tell it: {@code forward(?, ?)} where just the number
   *     is known, else {@code forward(...)}
   * @throws LibtorchException if there is no such method
   */
  public String schema(String method) {
    byte[] name = Native.bytes(method);
    long module = handle.acquire();
    try (Value text = Value.adopt(Native.schema(module, name))) {
      return text.toText();
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
