package libtorch.app;

import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An argument or a result of any kind: a number, text, a tensor, or a list, tuple or dictionary of values.
 *
 * <p>A value that is put into another, or passed to a call, is not consumed: close it all the same. Tensors are shared,
 * never copied silently.
 */
public class Value implements AutoCloseable {
  final Handle handle;
  private final Kind kind;

  Value(long address, Kind kind) {
    this.handle = Handle.ofValue(this, address);
    this.kind = kind;
  }

  /** A Java object for a new native value. */
  static Value adopt(long address) {
    Kind kind = Kind.of(Native.kind(address));
    return kind == Kind.TENSOR ? new Tensor(address) : new Value(address, kind);
  }

  /** The addresses of values, which stay until {@link #release}; of all or, where this throws, of none. */
  static long[] acquire(Value[] values) {
    long[] addresses = new long[values.length];
    int done = 0;
    try {
      for (; done < values.length; ++done) {
        if (values[done] == null) {
          throw new NullPointerException("value " + done + " is null; for Python's None there is Value.none()");
        }
        addresses[done] = values[done].handle.acquire();
      }
    } catch (RuntimeException error) {
      release(values, done);
      throw error;
    }
    return addresses;
  }

  static void release(Value[] values, int count) {
    for (int i = 0; i < count; ++i) {
      values[i].handle.release();
    }
  }

  /**
   * Python's None.
   *
   * @return a new value
   */
  public static Value none() {
    return adopt(Native.none());
  }

  /**
   * A boolean.
   *
   * @param value what it is
   * @return a new value
   */
  public static Value of(boolean value) {
    return adopt(Native.ofBool(value));
  }

  /**
   * An integer.
   *
   * @param value what it is
   * @return a new value
   */
  public static Value of(long value) {
    return adopt(Native.ofInt(value));
  }

  /**
   * A floating-point number.
   *
   * @param value what it is
   * @return a new value
   */
  public static Value of(double value) {
    return adopt(Native.ofDouble(Double.doubleToRawLongBits(value)));
  }

  /**
   * Text.
   *
   * @param value what it is
   * @return a new value
   */
  public static Value of(String value) {
    return adopt(Native.ofString(Native.bytes(value)));
  }

  /**
   * A tuple.
   *
   * @param items what it holds
   * @return a new value
   */
  public static Value tuple(Value... items) {
    Value[] values = items.clone();
    long[] addresses = acquire(values);
    try {
      return adopt(Native.tuple(addresses));
    } finally {
      release(values, values.length);
    }
  }

  /**
   * A list. It has the type of its items.
   *
   * @param empty the items' kind where there are none, and else ignored; a method that takes lists of another type is given
   *     one of that type
   * @param items what it holds
   * @return a new value
   */
  public static Value list(Kind empty, Value... items) {
    Value[] values = items.clone();
    long[] addresses = acquire(values);
    try {
      return adopt(Native.list(empty.ordinal(), addresses));
    } finally {
      release(values, values.length);
    }
  }

  /**
   * A dictionary. It has the types of its entries; keys are integers, numbers, booleans, text or tensors.
   *
   * @param emptyKey the keys' kind where there are no entries, and else ignored
   * @param emptyValue the values' kind, likewise
   * @param entries what it holds
   * @return a new value
   */
  public static Value dict(Kind emptyKey, Kind emptyValue, Map<? extends Value, ? extends Value> entries) {
    List<Value> both = new ArrayList<Value>(entries.keySet());
    int count = both.size();
    for (Value key : new ArrayList<Value>(both)) {
      both.add(entries.get(key));
    }
    Value[] values = both.toArray(new Value[0]);
    long[] addresses = acquire(values);
    try {
      long[] keys = new long[count];
      long[] items = new long[count];
      System.arraycopy(addresses, 0, keys, 0, count);
      System.arraycopy(addresses, count, items, 0, count);
      return adopt(Native.dict(emptyKey.ordinal(), emptyValue.ordinal(), keys, items));
    } finally {
      release(values, values.length);
    }
  }

  /**
   * What this is.
   *
   * @return the kind
   */
  public final Kind kind() {
    return kind;
  }

  /**
   * This tensor.
   *
   * @return this object, not another one: it is closed once
   * @throws LibtorchException if it is of another kind
   */
  public Tensor toTensor() {
    throw wrongKind("TENSOR");
  }

  /**
   * This boolean.
   *
   * @return what it is
   * @throws LibtorchException if it is of another kind
   */
  public final boolean toBoolean() {
    expect(Kind.BOOL);
    long address = handle.acquire();
    try {
      return Native.toBool(address);
    } finally {
      handle.release();
    }
  }

  /**
   * This integer.
   *
   * @return what it is
   * @throws LibtorchException if it is of another kind
   */
  public final long toLong() {
    expect(Kind.INT);
    long address = handle.acquire();
    try {
      return Native.toInt(address);
    } finally {
      handle.release();
    }
  }

  /**
   * This floating-point number.
   *
   * @return what it is
   * @throws LibtorchException if it is of another kind
   */
  public final double toDouble() {
    expect(Kind.DOUBLE);
    long address = handle.acquire();
    try {
      return Double.longBitsToDouble(Native.toDouble(address));
    } finally {
      handle.release();
    }
  }

  /**
   * This text. ({@link #toString} describes the value.)
   *
   * @return what it is
   * @throws LibtorchException if it is of another kind
   */
  public final String toText() {
    expect(Kind.STRING);
    long address = handle.acquire();
    try {
      return Native.text(Native.toText(address));
    } finally {
      handle.release();
    }
  }

  /**
   * How much a list, a tuple or a dictionary holds.
   *
   * @return how many items or entries
   * @throws LibtorchException if it is of another kind
   */
  public final long size() {
    if (kind != Kind.LIST && kind != Kind.TUPLE && kind != Kind.DICT) {
      throw wrongKind("LIST, TUPLE or DICT");
    }
    long address = handle.acquire();
    try {
      return Native.size(address);
    } finally {
      handle.release();
    }
  }

  /**
   * An item of a list or a tuple, or of a dictionary whose keys are integers.
   *
   * @param index from 0; of a dictionary, the key
   * @return a new value; the caller closes it
   * @throws LibtorchException if the index is out of range, there is no such key, or this is of another kind
   */
  public final Value get(long index) {
    if (kind == Kind.DICT) {
      try (Value key = of(index)) {
        return get(key);
      }
    }
    if (kind != Kind.LIST && kind != Kind.TUPLE) {
      throw wrongKind("LIST, TUPLE or DICT");
    }
    long address = handle.acquire();
    try {
      return adopt(Native.item(address, index));
    } finally {
      handle.release();
    }
  }

  /**
   * The item of a dictionary whose keys are text.
   *
   * @param key of the item
   * @return a new value; the caller closes it
   * @throws LibtorchException if there is no such key, or this is of another kind
   */
  public final Value get(String key) {
    try (Value text = of(key)) {
      return get(text);
    }
  }

  /**
   * The item of a dictionary at a key of any kind.
   *
   * @param key of the item; a tensor is found by itself, not by its elements
   * @return a new value; the caller closes it
   * @throws LibtorchException if there is no such key, or this is of another kind
   */
  public final Value get(Value key) {
    expect(Kind.DICT);
    long[] addresses = acquire(new Value[] {this, key});
    try {
      return adopt(Native.find(addresses[0], addresses[1]));
    } finally {
      release(new Value[] {this, key}, 2);
    }
  }

  /**
   * The items of a list or a tuple.
   *
   * @return new values; the caller closes them
   * @throws LibtorchException if it is of another kind
   */
  public final List<Value> toList() {
    if (kind != Kind.LIST && kind != Kind.TUPLE) {
      throw wrongKind("LIST or TUPLE");
    }
    List<Value> items = new ArrayList<Value>();
    for (long i = 0, count = size(); i < count; ++i) {
      items.add(get(i));
    }
    return Collections.unmodifiableList(items);
  }

  /**
   * The entries of a dictionary, in the order of insertion.
   *
   * @return new values; the caller closes keys and values
   * @throws LibtorchException if it is of another kind
   */
  public final List<Map.Entry<Value, Value>> entries() {
    expect(Kind.DICT);
    List<Map.Entry<Value, Value>> found = new ArrayList<Map.Entry<Value, Value>>();
    for (long i = 0, count = size(); i < count; ++i) {
      long address = handle.acquire();
      try {
        long[] pair = Native.entry(address, i);
        found.add(new SimpleImmutableEntry<Value, Value>(adopt(pair[0]), adopt(pair[1])));
      } finally {
        handle.release();
      }
    }
    return Collections.unmodifiableList(found);
  }

  /**
   * A dictionary whose keys are text, in the order of insertion.
   *
   * @return new values; the caller closes them
   * @throws LibtorchException if it is of another kind, or a key is
   */
  public final Map<String, Value> toMap() {
    Map<String, Value> found = new LinkedHashMap<String, Value>();
    for (Map.Entry<Value, Value> entry : entries()) {
      found.put(entry.getKey().toText(), entry.getValue());
      entry.getKey().close();
    }
    return Collections.unmodifiableMap(found);
  }

  /** Frees the value, at the end of a call that still uses it. What was made of it stays. */
  @Override
  public final void close() {
    handle.close();
  }

  @Override
  public String toString() {
    return "Value(" + kind + ")";
  }

  private void expect(Kind wanted) {
    if (kind != wanted) {
      throw wrongKind(wanted.name());
    }
  }

  private LibtorchException wrongKind(String wanted) {
    return new LibtorchException(Status.WRONG_KIND, "the value is " + kind + ", not " + wanted, "");
  }
}
