package org.pytorch;

import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;

/** Models among an app's assets. */
final class Assets {
  private static final int PIECE = 1 << 16;

  private Assets() {}

  static libtorch.app.Module load(AssetManager assets, String name) {
    try {
      AssetFileDescriptor file;
      try {
        file = assets.openFd(name);
      } catch (FileNotFoundException compressed) {
        return libtorch.app.Module.load(inflated(assets, name));
      }
      return mapped(file);
    } catch (IOException cause) {
      throw new IllegalArgumentException("Failed to open asset '" + name + "'", cause);
    }
  }

  private static libtorch.app.Module mapped(AssetFileDescriptor file) throws IOException {
    try (FileInputStream stream = file.createInputStream()) {
      FileChannel content = stream.getChannel();
      return libtorch.app.Module.load(
          content.map(FileChannel.MapMode.READ_ONLY, file.getStartOffset(), file.getLength()));
    } finally {
      file.close();
    }
  }

  private static byte[] inflated(AssetManager assets, String name) throws IOException {
    try (InputStream content = assets.open(name)) {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      byte[] piece = new byte[PIECE];
      for (int count; (count = content.read(piece)) >= 0; ) {
        all.write(piece, 0, count);
      }
      return all.toByteArray();
    }
  }
}
