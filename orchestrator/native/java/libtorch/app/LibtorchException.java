package libtorch.app;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** A failure of the runtime. Its message is the runtime's own text; of a call that failed, behind the call. */
public final class LibtorchException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Why the call failed. */
  private final Status status;

  /** What is missing or, of methods, what there is, one a line. */
  private final String names;

  LibtorchException(Status status, String text, String names) {
    super(text);
    this.status = status;
    this.names = names;
  }

  /** The same failure, of this call of a method. */
  LibtorchException of(String call) {
    LibtorchException told = new LibtorchException(status, call + ": " + getMessage(), names);
    told.setStackTrace(getStackTrace());
    return told;
  }

  /**
   * Why the call failed.
   *
   * @return never {@link Status#OK}
   */
  public Status status() {
    return status;
  }

  /**
   * What is missing: for {@link Status#MISSING_OPERATOR} the operators, for {@link Status#MISSING_DTYPE} the kernel tag
   * and then the dtype; or for {@link Status#NO_SUCH_METHOD} the methods that there are.
   *
   * @return the names; empty for other failures
   */
  public List<String> names() {
    List<String> found = new ArrayList<String>();
    for (String name : names.split("\n")) {
      if (!name.isEmpty()) {
        found.add(name);
      }
    }
    return Collections.unmodifiableList(found);
  }
}
