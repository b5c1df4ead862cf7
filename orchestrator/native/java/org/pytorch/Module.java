package org.pytorch;

import java.util.Map;
import libtorch.app.LibtorchException;
import libtorch.app.Status;
import libtorch.app.Value;

/** A loaded model. Calls of one module from several threads wait for each other. */
public class Module {
  private final libtorch.app.Module own;

  Module(libtorch.app.Module own) {
    this.own = own;
  }

  /**
   * Loads a model that {@code _save_for_lite_interpreter} wrote, as {@link LiteModuleLoader} does: this library has no
   * other interpreter.
   *
   * @param modelPath path of the file
   * @param extraFiles its keys are names of extra files in the model's file; their contents become its values, and ""
   *     for those that are not there; null for none
   * @param device {@link Device#CPU}
   * @return the model
   */
  public static Module load(String modelPath, Map<String, String> extraFiles, Device device) {
    return LiteModuleLoader.load(modelPath, extraFiles, device);
  }

  /**
   * Loads a model without extra files, to run on the processor.
   *
   * @param modelPath path of the file
   * @return the model
   */
  public static Module load(String modelPath) {
    return LiteModuleLoader.load(modelPath);
  }

  /**
   * Runs the method "forward".
   *
   * @param inputs its arguments
   * @return what it gives
   */
  public IValue forward(IValue... inputs) {
    return runMethod("forward", inputs);
  }

  /**
   * Runs a method.
   *
   * @param methodName its name
   * @param inputs its arguments
   * @return what it gives
   * @throws IllegalArgumentException if the model has no such method, or it gives what an {@link IValue} cannot be
   */
  public IValue runMethod(String methodName, IValue... inputs) {
    Value[] arguments = Conversion.valuesOf(inputs);
    try {
      return Conversion.taken(own.run(methodName, arguments));
    } catch (LibtorchException failure) {
      if (failure.status() == Status.NO_SUCH_METHOD) {
        throw new IllegalArgumentException(
            "Undefined method " + methodName + "; the model has " + failure.names(), failure);
      }
      throw failure;
    } finally {
      Conversion.close(arguments);
    }
  }

  /** Frees the model. It would be freed some time after nothing refers to it any more; this does it at once. */
  public void destroy() {
    own.close();
  }
}
