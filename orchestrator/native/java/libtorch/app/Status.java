package libtorch.app;

/** Why a call failed. The names and their order are those of {@code lta_status} in the C API. */
public enum Status {
  /** Nothing failed; no exception has it. */
  OK,
  /** An index out of range, a key that is not there, sizes or a number of arguments that do not fit. */
  INVALID_ARGUMENT,
  /** The value is of another kind than the call, or the model's method, wants. */
  WRONG_KIND,
  /** Not readable, not a lite-interpreter model, or damaged. */
  LOAD_FAILED,
  /** A model of a bytecode version that this runtime does not read. */
  UNSUPPORTED_MODEL,
  /** An operator that was not selected into this library. */
  MISSING_OPERATOR,
  /** A kernel that was selected without this dtype. */
  MISSING_DTYPE,
  /** The model has no method of that name. */
  NO_SUCH_METHOD,
  /** The model, or an operator in it, refused its input. */
  RUN_FAILED,
  /** There is not enough memory. */
  OUT_OF_MEMORY,
  /** None of the others: a bug of the library. */
  INTERNAL;

  private static final Status[] ALL = values();

  static Status of(int code) {
    return code >= 0 && code < ALL.length ? ALL[code] : INTERNAL;
  }
}
