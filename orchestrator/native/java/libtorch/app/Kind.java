package libtorch.app;

/** What a value is. The names and their order are those of {@code lta_kind} in the C API. */
public enum Kind {
  /** Python's None, and an undefined tensor. */
  NONE,
  /** A boolean. */
  BOOL,
  /** An integer of 64 bits. */
  INT,
  /** A floating-point number of 64 bits. */
  DOUBLE,
  /** Text. */
  STRING,
  /** A tensor. */
  TENSOR,
  /** A list. */
  LIST,
  /** A tuple. */
  TUPLE,
  /** A dictionary. */
  DICT,
  /** An object, a device, ...: it can be passed on, not looked into. */
  OTHER;

  private static final Kind[] ALL = values();

  static Kind of(int code) {
    return code >= 0 && code < ALL.length ? ALL[code] : OTHER;
  }
}
