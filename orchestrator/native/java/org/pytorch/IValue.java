package org.pytorch;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * An argument or a result of a model, of any kind that TorchScript has and this package knows.
 *
 * <p>A {@code toX()} of a value of another kind throws an {@link IllegalStateException}; {@code isX()} tells the kind.
 * What is given to {@code from}, {@code listFrom} and so on may be kept, not copied.
 *
 * <p>A model's list without items does not tell what it would have held: it is a list of every kind. So is its
 * dictionary without entries, whose keys may be text or integers.
 */
public class IValue {
  /** What a value is; of lists and dictionaries of a model that are empty, only that they are. */
  enum Type {
    NULL,
    TENSOR,
    BOOL,
    LONG,
    DOUBLE,
    STRING,
    TUPLE,
    BOOL_LIST,
    LONG_LIST,
    DOUBLE_LIST,
    TENSOR_LIST,
    LIST,
    EMPTY_LIST,
    DICT_STRING_KEY,
    DICT_LONG_KEY,
    EMPTY_DICT
  }

  final Type type;
  private final Object data;

  private IValue(Type type, Object data) {
    this.type = type;
    this.data = data;
  }

  /** A list that a model gave: of the kind of its items. */
  static IValue given(IValue[] items) {
    if (items.length == 0) {
      return new IValue(Type.EMPTY_LIST, items);
    }
    Type first = items[0].type;
    for (IValue item : items) {
      if (item.type != first) {
        return new IValue(Type.LIST, items); // List[Optional[T]] has items of two kinds
      }
    }
    switch (first) {
      case BOOL:
        boolean[] truths = new boolean[items.length];
        for (int i = 0; i < items.length; ++i) {
          truths[i] = items[i].toBool();
        }
        return listFrom(truths);
      case LONG:
        long[] numbers = new long[items.length];
        for (int i = 0; i < items.length; ++i) {
          numbers[i] = items[i].toLong();
        }
        return listFrom(numbers);
      case DOUBLE:
        double[] reals = new double[items.length];
        for (int i = 0; i < items.length; ++i) {
          reals[i] = items[i].toDouble();
        }
        return listFrom(reals);
      case TENSOR:
        Tensor[] tensors = new Tensor[items.length];
        for (int i = 0; i < items.length; ++i) {
          tensors[i] = items[i].toTensor();
        }
        return listFrom(tensors);
      default:
        return new IValue(Type.LIST, items);
    }
  }

  static IValue emptyDict() {
    return new IValue(Type.EMPTY_DICT, Collections.emptyMap());
  }

  static IValue[] each(boolean[] list) {
    IValue[] items = new IValue[list.length];
    for (int i = 0; i < list.length; ++i) {
      items[i] = from(list[i]);
    }
    return items;
  }

  static IValue[] each(long[] list) {
    IValue[] items = new IValue[list.length];
    for (int i = 0; i < list.length; ++i) {
      items[i] = from(list[i]);
    }
    return items;
  }

  static IValue[] each(double[] list) {
    IValue[] items = new IValue[list.length];
    for (int i = 0; i < list.length; ++i) {
      items[i] = from(list[i]);
    }
    return items;
  }

  static IValue[] each(Tensor[] list) {
    IValue[] items = new IValue[list.length];
    for (int i = 0; i < list.length; ++i) {
      items[i] = from(list[i]);
    }
    return items;
  }

  /** Whether this has the type, or is empty and so may have it. */
  private boolean isOf(Type wanted) {
    switch (wanted) {
      case BOOL_LIST:
      case LONG_LIST:
      case DOUBLE_LIST:
      case TENSOR_LIST:
      case LIST:
        return isListOf(wanted);
      case DICT_STRING_KEY:
      case DICT_LONG_KEY:
        return isDictOf(wanted);
      default:
        return is(wanted);
    }
  }

  private boolean is(Type wanted) {
    return type == wanted;
  }

  private boolean isListOf(Type wanted) {
    return type == wanted || type == Type.EMPTY_LIST;
  }

  private boolean isDictOf(Type wanted) {
    return type == wanted || type == Type.EMPTY_DICT;
  }

  /**
   * Whether this is Python's None.
   *
   * @return whether it is
   */
  public boolean isNull() {
    return is(Type.NULL);
  }

  /**
   * Whether this is a tensor.
   *
   * @return whether it is
   */
  public boolean isTensor() {
    return is(Type.TENSOR);
  }

  /**
   * Whether this is a bool.
   *
   * @return whether it is
   */
  public boolean isBool() {
    return is(Type.BOOL);
  }

  /**
   * Whether this is an int.
   *
   * @return whether it is
   */
  public boolean isLong() {
    return is(Type.LONG);
  }

  /**
   * Whether this is a float.
   *
   * @return whether it is
   */
  public boolean isDouble() {
    return is(Type.DOUBLE);
  }

  /**
   * Whether this is a str.
   *
   * @return whether it is
   */
  public boolean isString() {
    return is(Type.STRING);
  }

  /**
   * Whether this is a tuple.
   *
   * @return whether it is
   */
  public boolean isTuple() {
    return is(Type.TUPLE);
  }

  /**
   * Whether this is a List[bool].
   *
   * @return whether it is
   */
  public boolean isBoolList() {
    return isListOf(Type.BOOL_LIST);
  }

  /**
   * Whether this is a List[int].
   *
   * @return whether it is
   */
  public boolean isLongList() {
    return isListOf(Type.LONG_LIST);
  }

  /**
   * Whether this is a List[float].
   *
   * @return whether it is
   */
  public boolean isDoubleList() {
    return isListOf(Type.DOUBLE_LIST);
  }

  /**
   * Whether this is a List[Tensor].
   *
   * @return whether it is
   */
  public boolean isTensorList() {
    return isListOf(Type.TENSOR_LIST);
  }

  /**
   * Whether this is a list of anything else than tensors and numbers.
   *
   * @return whether it is
   */
  public boolean isList() {
    return isListOf(Type.LIST);
  }

  /**
   * Whether this is a Dict[str, T].
   *
   * @return whether it is
   */
  public boolean isDictStringKey() {
    return isDictOf(Type.DICT_STRING_KEY);
  }

  /**
   * Whether this is a Dict[int, T].
   *
   * @return whether it is
   */
  public boolean isDictLongKey() {
    return isDictOf(Type.DICT_LONG_KEY);
  }

  /**
   * Python's None, for an argument of the kind Optional[T].
   *
   * @return a new value
   */
  public static IValue optionalNull() {
    return new IValue(Type.NULL, null);
  }

  /**
   * A tensor.
   *
   * @param tensor what it is
   * @return a new value
   */
  public static IValue from(Tensor tensor) {
    return new IValue(Type.TENSOR, tensor);
  }

  /**
   * A bool.
   *
   * @param value what it is
   * @return a new value
   */
  public static IValue from(boolean value) {
    return new IValue(Type.BOOL, value);
  }

  /**
   * An int.
   *
   * @param value what it is
   * @return a new value
   */
  public static IValue from(long value) {
    return new IValue(Type.LONG, value);
  }

  /**
   * A float.
   *
   * @param value what it is
   * @return a new value
   */
  public static IValue from(double value) {
    return new IValue(Type.DOUBLE, value);
  }

  /**
   * A str.
   *
   * @param value what it is
   * @return a new value
   */
  public static IValue from(String value) {
    return new IValue(Type.STRING, value);
  }

  /**
   * A List[bool].
   *
   * @param list its items
   * @return a new value
   */
  public static IValue listFrom(boolean... list) {
    return new IValue(Type.BOOL_LIST, list);
  }

  /**
   * A List[int].
   *
   * @param list its items
   * @return a new value
   */
  public static IValue listFrom(long... list) {
    return new IValue(Type.LONG_LIST, list);
  }

  /**
   * A List[float].
   *
   * @param list its items
   * @return a new value
   */
  public static IValue listFrom(double... list) {
    return new IValue(Type.DOUBLE_LIST, list);
  }

  /**
   * A List[Tensor].
   *
   * @param list its items
   * @return a new value
   */
  public static IValue listFrom(Tensor... list) {
    return new IValue(Type.TENSOR_LIST, list);
  }

  /**
   * A List[T].
   *
   * @param array its items, all of one kind; a model's list or dictionary that is empty is of any
   * @return a new value
   * @throws IllegalArgumentException if they are of several
   */
  public static IValue listFrom(IValue... array) {
    Type kind = array.length == 0 ? null : array[0].type;
    for (IValue item : array) {
      kind = item.isOf(kind) ? kind : item.type;
    }
    for (IValue item : array) {
      if (!item.isOf(kind)) {
        throw new IllegalArgumentException("List must contain items of the same type");
      }
    }
    return new IValue(Type.LIST, array);
  }

  /**
   * A tuple.
   *
   * @param array its items
   * @return a new value
   */
  public static IValue tupleFrom(IValue... array) {
    return new IValue(Type.TUPLE, array);
  }

  /**
   * A Dict[str, T].
   *
   * @param map its entries
   * @return a new value
   */
  public static IValue dictStringKeyFrom(Map<String, IValue> map) {
    return new IValue(Type.DICT_STRING_KEY, map);
  }

  /**
   * A Dict[int, T].
   *
   * @param map its entries
   * @return a new value
   */
  public static IValue dictLongKeyFrom(Map<Long, IValue> map) {
    return new IValue(Type.DICT_LONG_KEY, map);
  }

  /**
   * This tensor.
   *
   * @return what it is
   */
  public Tensor toTensor() {
    require(isTensor(), Type.TENSOR);
    return (Tensor) data;
  }

  /**
   * This bool.
   *
   * @return what it is
   */
  public boolean toBool() {
    require(isBool(), Type.BOOL);
    return (Boolean) data;
  }

  /**
   * This int.
   *
   * @return what it is
   */
  public long toLong() {
    require(isLong(), Type.LONG);
    return (Long) data;
  }

  /**
   * This float.
   *
   * @return what it is
   */
  public double toDouble() {
    require(isDouble(), Type.DOUBLE);
    return (Double) data;
  }

  /**
   * This str.
   *
   * @return what it is
   */
  public String toStr() {
    require(isString(), Type.STRING);
    return (String) data;
  }

  /**
   * The items of this List[bool].
   *
   * @return the items
   */
  public boolean[] toBoolList() {
    require(isBoolList(), Type.BOOL_LIST);
    return is(Type.EMPTY_LIST) ? new boolean[0] : (boolean[]) data;
  }

  /**
   * The items of this List[int].
   *
   * @return the items
   */
  public long[] toLongList() {
    require(isLongList(), Type.LONG_LIST);
    return is(Type.EMPTY_LIST) ? new long[0] : (long[]) data;
  }

  /**
   * The items of this List[float].
   *
   * @return the items
   */
  public double[] toDoubleList() {
    require(isDoubleList(), Type.DOUBLE_LIST);
    return is(Type.EMPTY_LIST) ? new double[0] : (double[]) data;
  }

  /**
   * The items of this List[Tensor].
   *
   * @return the items
   */
  public Tensor[] toTensorList() {
    require(isTensorList(), Type.TENSOR_LIST);
    return is(Type.EMPTY_LIST) ? new Tensor[0] : (Tensor[]) data;
  }

  /**
   * The items of this list of anything else.
   *
   * @return the items
   */
  public IValue[] toList() {
    require(isList(), Type.LIST);
    return (IValue[]) data;
  }

  /**
   * The items of this tuple.
   *
   * @return the items
   */
  public IValue[] toTuple() {
    require(isTuple(), Type.TUPLE);
    return (IValue[]) data;
  }

  /**
   * The entries of this Dict[str, T].
   *
   * @return the entries, of a model's in the order of insertion
   */
  @SuppressWarnings("unchecked") // as dictStringKeyFrom took it
  public Map<String, IValue> toDictStringKey() {
    require(isDictStringKey(), Type.DICT_STRING_KEY);
    return is(Type.EMPTY_DICT) ? new LinkedHashMap<String, IValue>() : (Map<String, IValue>) data;
  }

  /**
   * The entries of this Dict[int, T].
   *
   * @return the entries, of a model's in the order of insertion
   */
  @SuppressWarnings("unchecked") // as dictLongKeyFrom took it
  public Map<Long, IValue> toDictLongKey() {
    require(isDictLongKey(), Type.DICT_LONG_KEY);
    return is(Type.EMPTY_DICT) ? new LinkedHashMap<Long, IValue>() : (Map<Long, IValue>) data;
  }

  private void require(boolean fits, Type wanted) {
    if (!fits) {
      throw new IllegalStateException("Expected IValue type " + wanted + ", actual type " + type);
    }
  }
}
