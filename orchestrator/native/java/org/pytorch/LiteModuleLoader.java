package org.pytorch;

import android.content.res.AssetManager;
import java.io.IOException;
import java.util.Map;

/** Loads models that {@code _save_for_lite_interpreter} wrote. */
public class LiteModuleLoader {
  private LiteModuleLoader() {}

  /**
   * Loads a model, and extra files out of its file.
   *
   * @param modelPath path of the file
   * @param extraFiles its keys are names of extra files in the model's file; their contents become its values, and ""
   *     for those that are not there; null for none
   * @param device {@link Device#CPU}
   * @return the model
   * @throws UnsupportedOperationException for another device
   */
  public static Module load(String modelPath, Map<String, String> extraFiles, Device device) {
    requireProcessor(device);
    Module module = new Module(libtorch.app.Module.load(modelPath));
    if (extraFiles != null && !extraFiles.isEmpty()) {
      try {
        ExtraFiles.read(modelPath, extraFiles);
      } catch (IOException cause) {
        module.destroy();
        throw new IllegalArgumentException("the extra files of " + modelPath + " cannot be read: " + cause.getMessage(), cause);
      }
    }
    return module;
  }

  /**
   * Loads a model, to run on the processor.
   *
   * @param modelPath path of the file
   * @return the model
   */
  public static Module load(String modelPath) {
    return load(modelPath, null, Device.CPU);
  }

  /**
   * Loads a model out of an app's assets, without a copy where the asset is stored uncompressed.
   *
   * @param assetManager the app's assets
   * @param assetName name of the asset
   * @param device {@link Device#CPU}
   * @return the model
   * @throws IllegalArgumentException if the asset cannot be opened
   * @throws UnsupportedOperationException for another device
   */
  public static Module loadModuleFromAsset(AssetManager assetManager, String assetName, Device device) {
    requireProcessor(device);
    return new Module(Assets.load(assetManager, assetName));
  }

  /**
   * Loads a model out of an app's assets, to run on the processor.
   *
   * @param assetManager the app's assets
   * @param assetName name of the asset
   * @return the model
   * @throws IllegalArgumentException if the asset cannot be opened
   */
  public static Module loadModuleFromAsset(AssetManager assetManager, String assetName) {
    return loadModuleFromAsset(assetManager, assetName, Device.CPU);
  }

  private static void requireProcessor(Device device) {
    if (device != Device.CPU) {
      throw new UnsupportedOperationException("Device." + device + " is not supported: this library runs models on the CPU");
    }
  }
}
