import android.content.res.AssetManager;
import android.graphics.Bitmap;
import android.media.Image;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.pytorch.DType;
import org.pytorch.Device;
import org.pytorch.IValue;
import org.pytorch.LiteModuleLoader;
import org.pytorch.MemoryFormat;
import org.pytorch.Module;
import org.pytorch.PyTorchAndroid;
import org.pytorch.Tensor;
import org.pytorch.torchvision.TensorImageUtils;

/**
 * An app as the public demos of PyTorch Android write it: nothing here knows of another library.
 *
 * <p>Its arguments are a demo, a folder of assets and the name of its model there.
 */
public final class Demos {
  private final AssetManager assets;
  private final File files;

  private Demos(AssetManager assets, File files) {
    this.assets = assets;
    this.files = files;
  }

  public static void main(String[] arguments) throws IOException {
    Demos demos = new Demos(new AssetManager(new File(arguments[1])), new File(arguments[1], "files"));
    String model = arguments[2];
    switch (arguments[0]) {
      case "classification":
        demos.classification(model);
        break;
      case "segmentation":
        demos.segmentation(model);
        break;
      case "speech":
        demos.speech(model);
        break;
      case "answers":
        demos.answers(model);
        break;
      default:
        throw new IllegalArgumentException(arguments[0]);
    }
  }

  /** The file of an asset: models are loaded by path, and assets have none. */
  private String assetFilePath(String name) throws IOException {
    File file = new File(files, name);
    if (file.exists() && file.length() > 0) {
      return file.getAbsolutePath();
    }
    files.mkdirs();
    try (InputStream in = assets.open(name);
        OutputStream out = new FileOutputStream(file)) {
      byte[] buffer = new byte[4 * 1024];
      int read;
      while ((read = in.read(buffer)) != -1) {
        out.write(buffer, 0, read);
      }
      out.flush();
    }
    return file.getAbsolutePath();
  }

  // ---- What is in this picture? ----

  private static final String[] CLASSES = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"
  };
  private static final int SIDE = 96;

  private void classification(String model) throws IOException {
    Module module = LiteModuleLoader.load(assetFilePath(model));
    Bitmap bitmap = picture(128, 96);
    Tensor input =
        TensorImageUtils.bitmapToFloat32Tensor(
            bitmap,
            16,
            0,
            SIDE,
            SIDE,
            TensorImageUtils.TORCHVISION_NORM_MEAN_RGB,
            TensorImageUtils.TORCHVISION_NORM_STD_RGB,
            MemoryFormat.CHANNELS_LAST);
    Tensor output = module.forward(IValue.from(input)).toTensor();
    float[] scores = output.getDataAsFloatArray();
    show("picture", scores);

    // the same in the other order of elements
    Tensor planes =
        TensorImageUtils.bitmapToFloat32Tensor(
            bitmap,
            16,
            0,
            SIDE,
            SIDE,
            TensorImageUtils.TORCHVISION_NORM_MEAN_RGB,
            TensorImageUtils.TORCHVISION_NORM_STD_RGB);
    float[] again = module.forward(IValue.from(planes)).toTensor().getDataAsFloatArray();
    for (int i = 0; i < scores.length; ++i) {
      if (Math.abs(scores[i] - again[i]) > 1e-5) {
        throw new AssertionError("another order of elements, another score: " + again[i]);
      }
    }

    // a camera's frames, with one buffer and one tensor for all of them
    FloatBuffer buffer = Tensor.allocateFloatBuffer(3 * SIDE * SIDE);
    Tensor frame = Tensor.fromBlob(buffer, new long[] {1, 3, SIDE, SIDE});
    for (int number = 0; number < 3; ++number) {
      TensorImageUtils.imageYUV420CenterCropToFloatBuffer(
          camera(number),
          90,
          SIDE,
          SIDE,
          TensorImageUtils.TORCHVISION_NORM_MEAN_RGB,
          TensorImageUtils.TORCHVISION_NORM_STD_RGB,
          buffer,
          0);
      show("frame " + number, module.forward(IValue.from(frame)).toTensor().getDataAsFloatArray());
    }
    module.destroy();
  }

  private void show(String what, float[] scores) {
    List<Integer> order = new ArrayList<>();
    for (int i = 0; i < scores.length; ++i) {
      order.add(i);
    }
    order.sort((a, b) -> Float.compare(scores[b], scores[a]));
    int best = order.get(0);
    System.out.printf("%s: %s %.6f%n", what, CLASSES[best], scores[best]);
  }

  private static Bitmap picture(int width, int height) {
    int[] colors = new int[width * height];
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        int red = 255 * x / width;
        int green = 255 * y / height;
        int blue = (x / 8 + y / 8) % 2 * 255;
        colors[y * width + x] = 0xff << 24 | red << 16 | green << 8 | blue;
      }
    }
    return Bitmap.createBitmap(colors, width, height, Bitmap.Config.ARGB_8888);
  }

  private static Image camera(int number) {
    int[][] luma = new int[120][160];
    int[][] blue = new int[60][80];
    int[][] red = new int[60][80];
    for (int y = 0; y < 120; ++y) {
      for (int x = 0; x < 160; ++x) {
        luma[y][x] = 16 + (x + 10 * number) % 200;
        blue[y / 2][x / 2] = 80 + y;
        red[y / 2][x / 2] = 200 - x / 2;
      }
    }
    return new Frame(luma, blue, red, true);
  }

  // ---- What belongs to what? ----

  private static final int CLASSNUM = 3;

  private void segmentation(String model) throws IOException {
    Module module = PyTorchAndroid.loadModuleFromAsset(assets, model);
    final Bitmap bitmap = picture(16, 12);
    final Tensor inputTensor =
        TensorImageUtils.bitmapToFloat32Tensor(bitmap, new float[] {0, 0, 0}, new float[] {1, 1, 1});
    Map<String, IValue> outTensors = module.forward(IValue.from(inputTensor)).toDictStringKey();
    final Tensor outputTensor = outTensors.get("out").toTensor();
    final float[] scores = outputTensor.getDataAsFloatArray();
    int width = bitmap.getWidth();
    int height = bitmap.getHeight();
    int[] counts = new int[CLASSNUM];
    for (int j = 0; j < height; j++) {
      for (int k = 0; k < width; k++) {
        int maxi = 0;
        double maxnum = -Double.MAX_VALUE;
        for (int i = 0; i < CLASSNUM; i++) {
          float score = scores[i * (width * height) + j * width + k];
          if (score > maxnum) {
            maxnum = score;
            maxi = i;
          }
        }
        counts[maxi]++;
      }
    }
    System.out.println("pixels by class: " + Arrays.toString(counts));
  }

  // ---- What was said? ----

  private static final int FEATURES = 40;
  private static final int FRAMES = 49;
  private static final int STEP = 7;
  private static final String[] WORDS = {
    "silence", "unknown", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"
  };

  /** Sound goes on: each second that is looked at begins with what the one before ended with. */
  private void speech(String model) throws IOException {
    Map<String, String> extraFiles = new HashMap<>();
    extraFiles.put("model_version", "");
    Module module = LiteModuleLoader.load(assetFilePath(model), extraFiles, Device.CPU);
    PyTorchAndroid.setNumThreads(1);
    float[] window = new float[FEATURES * FRAMES];
    float[] state = new float[WORDS.length];
    for (int second = 0; second < 6; ++second) {
      for (int feature = 0; feature < FEATURES; ++feature) {
        int row = feature * FRAMES;
        System.arraycopy(window, row + STEP, window, row, FRAMES - STEP);
        for (int frame = FRAMES - STEP; frame < FRAMES; ++frame) {
          window[row + frame] = (float) Math.sin(0.3 * feature * (second + 1) + 0.05 * frame);
        }
      }
      Tensor input = Tensor.fromBlob(window, new long[] {1, 1, FEATURES, FRAMES});
      Tensor output = module.runMethod("forward", IValue.from(input)).toTensor();
      if (output.dtype() != DType.FLOAT32 || output.numel() != WORDS.length) {
        throw new IllegalStateException(output.toString());
      }
      float[] scores = output.getDataAsFloatArray();
      int best = 0;
      for (int i = 0; i < scores.length; ++i) {
        state[i] = 0.5f * state[i] + 0.5f * scores[i];
        best = state[i] > state[best] ? i : best;
      }
      System.out.printf("second %d: %s %.3f%n", second, WORDS[best], state[best]);
    }
  }

  // ---- What is the answer? ----

  private static final int END = 0;
  private static final int LONGEST = 12;

  /** Question and answer are one text of tokens; the model remembers what it has read. */
  private void answers(String model) throws IOException {
    Module module = LiteModuleLoader.loadModuleFromAsset(assets, model, Device.CPU);
    long[][] questions = {{17, 3, 42, 8, 8, 90}, {5, 61}, {17, 3, 42, 8, 8, 90}};
    for (long[] question : questions) {
      module.runMethod("reset");
      System.out.println(Arrays.toString(question) + ": " + answer(module, question));
    }
  }

  private static List<Integer> answer(Module module, long[] question) {
    List<Integer> tokens = new ArrayList<>();
    long[] next = question;
    while (tokens.size() < LONGEST) {
      IValue input = IValue.from(Tensor.fromBlob(next, new long[] {1, next.length}));
      float[] scores = module.forward(input).toTensor().getDataAsFloatArray();
      int best = 0;
      for (int i = 1; i < scores.length; ++i) {
        best = scores[i] > scores[best] ? i : best;
      }
      if (best == END) {
        break;
      }
      tokens.add(best);
      next = new long[] {best};
    }
    return tokens;
  }
}
