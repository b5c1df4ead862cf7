/**
 * Runs an app's PyTorch models on its own libtorch.
 *
 * <pre>{@code
 * try (Module module = Module.load(path);
 *     Tensor picture = Tensor.of(pixels, 1, 3, 96, 96);
 *     Value scores = module.forward(picture)) {
 *   float[] score = scores.toTensor().toFloatArray();
 * }
 * }</pre>
 *
 * <p><b>Memory.</b> Modules and values hold native memory until they are closed. One that is dropped without being
 * closed is freed some time after the garbage collector has found it; the collector does not see how large it is, so
 * close what you can. What is closed cannot be used any more, and closing twice does nothing. Memory that Java code can
 * see always belongs to Java: a tensor over a buffer keeps that buffer alive, and results are copied into one.
 *
 * <p><b>Threads.</b> Different modules may be used by different threads at once. Calls of one module wait for each
 * other. A value may move between threads, but must not be used by two at once. Anything may be closed at any time: it
 * is freed when no call uses it any more.
 *
 * <p><b>Errors.</b> What the runtime refuses is a {@link libtorch.app.LibtorchException} with its text. What is used
 * after it was closed is an {@link java.lang.IllegalStateException}.
 */
package libtorch.app;
