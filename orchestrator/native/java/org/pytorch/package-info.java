/**
 * The classes of PyTorch Android 2.1 ({@code org.pytorch:pytorch_android_lite}), over an app's own libtorch.
 *
 * <p>Code that was written for them compiles and runs unchanged, where the library has what its models use. What this
 * library cannot do is an exception that says so. All of it goes through the app's own package, {@code libtorch.app},
 * which can be used beside it.
 *
 * <p>What a model gives is copied into buffers of Java once. What fails in the runtime is a {@link
 * libtorch.app.LibtorchException}.
 */
package org.pytorch;
