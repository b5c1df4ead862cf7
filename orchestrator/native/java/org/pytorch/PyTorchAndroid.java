package org.pytorch;

import android.content.res.AssetManager;
import libtorch.app.Libtorch;

/** What concerns the whole library. */
public final class PyTorchAndroid {
  private PyTorchAndroid() {}

  /**
   * Loads a model out of an app's assets.
   *
   * @param assetManager the app's assets
   * @param assetName name of the asset
   * @param device {@link Device#CPU}
   * @return the model
   */
  public static Module loadModuleFromAsset(AssetManager assetManager, String assetName, Device device) {
    return LiteModuleLoader.loadModuleFromAsset(assetManager, assetName, device);
  }

  /**
   * Loads a model out of an app's assets, to run on the processor.
   *
   * @param assetManager the app's assets
   * @param assetName name of the asset
   * @return the model
   */
  public static Module loadModuleFromAsset(AssetManager assetManager, String assetName) {
    return LiteModuleLoader.loadModuleFromAsset(assetManager, assetName);
  }

  /**
   * Sets how many threads models use, for all modules.
   *
   * @param numThreads at least 1; at most 1 where the library was made with {@code threads: 1}
   * @throws IllegalArgumentException for less than 1
   * @throws libtorch.app.LibtorchException for more than the library can use
   */
  public static void setNumThreads(int numThreads) {
    if (numThreads < 1) {
      throw new IllegalArgumentException("Number of threads cannot be less than 1");
    }
    Libtorch.setThreads(numThreads);
  }
}
