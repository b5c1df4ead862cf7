package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;

/** A stand-in of Android's: a folder, in which names that end with ".gz" count as compressed. */
public final class AssetManager {
  private final File folder;

  public AssetManager(File folder) {
    this.folder = folder;
  }

  public InputStream open(String fileName) throws IOException {
    return new FileInputStream(new File(folder, fileName));
  }

  public AssetFileDescriptor openFd(String fileName) throws IOException {
    if (fileName.endsWith(".gz")) {
      throw new FileNotFoundException("it is probably compressed");
    }
    return new AssetFileDescriptor(new File(folder, fileName));
  }
}
