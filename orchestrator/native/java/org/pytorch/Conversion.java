package org.pytorch;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import libtorch.app.Kind;
import libtorch.app.Value;

/** Between an {@link IValue} and a value of the app's own package. */
final class Conversion {
  private Conversion() {}

  /** New values; the caller closes them. */
  static Value[] valuesOf(IValue[] inputs) {
    List<Value> values = new ArrayList<Value>(inputs.length);
    boolean done = false;
    try {
      for (IValue input : inputs) {
        values.add(valueOf(input));
      }
      done = true;
      return values.toArray(new Value[0]);
    } finally {
      if (!done) {
        close(values.toArray(new Value[0]));
      }
    }
  }

  static void close(Value[] values) {
    for (Value value : values) {
      value.close();
    }
  }

  private static Value valueOf(IValue input) {
    switch (input.type) {
      case NULL:
        return Value.none();
      case TENSOR:
        return input.toTensor().toOwn();
      case BOOL:
        return Value.of(input.toBool());
      case LONG:
        return Value.of(input.toLong());
      case DOUBLE:
        return Value.of(input.toDouble());
      case STRING:
        return Value.of(input.toStr());
      case TUPLE:
        return joined(input.toTuple(), null);
      case BOOL_LIST:
        return joined(IValue.each(input.toBoolList()), Kind.BOOL);
      case LONG_LIST:
        return joined(IValue.each(input.toLongList()), Kind.INT);
      case DOUBLE_LIST:
        return joined(IValue.each(input.toDoubleList()), Kind.DOUBLE);
      case TENSOR_LIST:
        return joined(IValue.each(input.toTensorList()), Kind.TENSOR);
      case LIST:
      case EMPTY_LIST:
        return joined(input.toList(), Kind.TENSOR);
      case DICT_STRING_KEY:
      case EMPTY_DICT:
        return dict(input.toDictStringKey(), Kind.STRING);
      default:
        return dict(input.toDictLongKey(), Kind.INT);
    }
  }

  /** A list, whose items are of the kind {@code empty} where there are none; or without it a tuple. */
  private static Value joined(IValue[] inputs, Kind empty) {
    Value[] items = valuesOf(inputs);
    try {
      return empty == null ? Value.tuple(items) : Value.list(empty, items);
    } finally {
      close(items);
    }
  }

  private static Value dict(Map<?, IValue> map, Kind kind) {
    Map<Value, Value> entries = new LinkedHashMap<Value, Value>();
    try {
      for (Map.Entry<?, IValue> entry : map.entrySet()) {
        Value key = kind == Kind.STRING ? Value.of((String) entry.getKey()) : Value.of((long) (Long) entry.getKey());
        entries.put(key, key); // so that it is closed, whatever the item is
        entries.put(key, valueOf(entry.getValue()));
      }
      return Value.dict(kind, Kind.TENSOR, entries);
    } finally {
      for (Map.Entry<Value, Value> entry : entries.entrySet()) {
        entry.getKey().close();
        entry.getValue().close();
      }
    }
  }

  /** What a model gave; closes the value. */
  static IValue taken(Value value) {
    try {
      switch (value.kind()) {
        case NONE:
          return IValue.optionalNull();
        case BOOL:
          return IValue.from(value.toBoolean());
        case INT:
          return IValue.from(value.toLong());
        case DOUBLE:
          return IValue.from(value.toDouble());
        case STRING:
          return IValue.from(value.toText());
        case TENSOR:
          return IValue.from(Tensor.of(value.toTensor()));
        case LIST:
          return IValue.given(taken(value.toList()));
        case TUPLE:
          return IValue.tupleFrom(taken(value.toList()));
        case DICT:
          return dict(value.entries());
        default:
          throw new IllegalArgumentException("a model gave an object, or a device: an IValue cannot be that");
      }
    } finally {
      value.close();
    }
  }

  private static IValue[] taken(List<Value> values) {
    try {
      IValue[] items = new IValue[values.size()];
      for (int i = 0; i < items.length; ++i) {
        items[i] = taken(values.get(i));
      }
      return items;
    } finally {
      close(values.toArray(new Value[0]));
    }
  }

  private static IValue dict(List<Map.Entry<Value, Value>> entries) {
    try {
      Map<String, IValue> texts = new LinkedHashMap<String, IValue>();
      Map<Long, IValue> numbers = new LinkedHashMap<Long, IValue>();
      for (Map.Entry<Value, Value> entry : entries) {
        Value key = entry.getKey();
        if (key.kind() == Kind.STRING) {
          texts.put(key.toText(), taken(entry.getValue()));
        } else if (key.kind() == Kind.INT) {
          numbers.put(key.toLong(), taken(entry.getValue()));
        } else {
          throw new IllegalArgumentException(
              "a model gave a dictionary with keys of the kind " + key.kind() + ": an IValue has text or integers");
        }
      }
      if (entries.isEmpty()) {
        return IValue.emptyDict();
      }
      return numbers.isEmpty() ? IValue.dictStringKeyFrom(texts) : IValue.dictLongKeyFrom(numbers);
    } finally {
      for (Map.Entry<Value, Value> entry : entries) {
        entry.getKey().close();
        entry.getValue().close();
      }
    }
  }
}
