// Apps as the public demos for the pod LibTorch-Lite write them, without Objective-C around: nothing
// here knows of another library. Arguments: a demo and its model's file.
#include <Libtorch-Lite/Libtorch-Lite.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

// ---- HelloWorld: TorchModule.mm ----

class Classifier {
 public:
  explicit Classifier(const std::string& path) : impl_(torch::jit::_load_for_mobile(path)) {}

  std::vector<float> predict(void* image) {
    at::Tensor tensor = torch::from_blob(image, {1, 3, 96, 96}, at::kFloat);
    c10::InferenceMode guard;
    auto output = impl_.forward({tensor}).toTensor();
    float* scores = output.data_ptr<float>();
    if (!scores) {
      return {};
    }
    return std::vector<float>(scores, scores + output.numel());
  }

 private:
  torch::jit::mobile::Module impl_;
};

int classification(const char* model) {
  std::vector<float> image(3 * 96 * 96);
  for (size_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<float>(i % 255) / 255.0f - 0.5f;
  }
  Classifier classifier(model);
  for (const float score : classifier.predict(image.data())) {
    std::printf("%.5f\n", static_cast<double>(score));
  }
  return 0;
}

// ---- ImageSegmentation ----

int segmentation(const char* model) {
  at::AutoNonVariableTypeMode non_var_type_mode(true);
  torch::jit::mobile::Module module = torch::jit::_load_for_mobile(model);
  std::vector<float> pixels(2 * 2 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<float>((i * 7) % 5);
  }
  at::Tensor tensor = torch::from_blob(pixels.data(), {1, 3, 2, 2}, at::kFloat);
  auto outputDict = module.forward({tensor}).toGenericDict();
  auto outputTensor = outputDict.at("out").toTensor();
  const float* logits = outputTensor.data_ptr<float>();
  for (int j = 0; j < 2; ++j) {
    for (int k = 0; k < 2; ++k) {
      int best = 0;
      for (int i = 1; i < 3; ++i) {
        if (logits[i * 4 + j * 2 + k] > logits[best * 4 + j * 2 + k]) {
          best = i;
        }
      }
      std::printf("pixel %d %d: class %d\n", j, k, best);
    }
  }
  return 0;
}

// ---- StreamingASR: a window that moves, and a state of the app's own ----

int speech(const char* model) {
  const char* const words[] = {"silence", "unknown", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"};
  constexpr int kWords = sizeof words / sizeof *words, kFeatures = 40, kFrames = 49, kStep = 7;
  torch::autograd::AutoGradMode guard(false);
  auto module = torch::jit::_load_for_mobile(model);
  module.eval();
  std::vector<float> window(kFeatures * kFrames);
  std::vector<float> state(kWords);
  for (int second = 0; second < 6; ++second) {
    for (int feature = 0; feature < kFeatures; ++feature) {
      float* const row = window.data() + feature * kFrames;
      std::copy(row + kStep, row + kFrames, row);
      for (int frame = kFrames - kStep; frame < kFrames; ++frame) {
        row[frame] = static_cast<float>(std::sin(0.3 * feature * (second + 1) + 0.05 * frame));
      }
    }
    auto input = torch::from_blob(window.data(), {1, 1, kFeatures, kFrames}, torch::kFloat);
    std::vector<torch::jit::IValue> inputs;
    inputs.push_back(input);
    auto output = module.forward(inputs).toTensor();
    auto scores = output.accessor<float, 2>();
    int best = 0;
    for (int i = 0; i < kWords; ++i) {
      state[i] = 0.5f * state[i] + 0.5f * scores[0][i];
      best = state[i] > state[best] ? i : best;
    }
    std::printf("second %d: %s %.3f\n", second, words[best], static_cast<double>(state[best]));
  }
  return 0;
}

// ---- QuestionAnswering: two methods, and a state of the model's ----

int answers(const char* model) {
  auto module = torch::jit::_load_for_mobile(model);
  const std::vector<std::vector<int64_t>> questions = {
      {17, 3, 42, 8, 8, 90}, {5, 61}, {17, 3, 42, 8, 8, 90}};
  for (const auto& question : questions) {
    module.run_method("reset");
    std::vector<int64_t> next = question;
    for (int count = 0; count < 12; ++count) {
      const auto length = static_cast<int64_t>(next.size());
      auto input = torch::from_blob(next.data(), {1, length}, torch::TensorOptions(at::kLong));
      auto scores = module.forward({input}).toTensor().contiguous();
      const float* data = scores.data_ptr<float>();
      const auto best = std::max_element(data, data + scores.numel()) - data;
      if (best == 0) {
        break;
      }
      std::printf("%d ", static_cast<int>(best));
      next = {best};
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    return 2;
  }
  try {
    const std::string demo = words[1];
    return demo == "classification" ? classification(words[2])
        : demo == "segmentation"    ? segmentation(words[2])
        : demo == "speech"          ? speech(words[2])
                                    : answers(words[2]);
  } catch (const c10::Error& error) {
    std::printf("c10::Error: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
  }
  return 1;
}
