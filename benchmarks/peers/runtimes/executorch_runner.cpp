// Runs one ExecuTorch program and tells what it took: the counterpart of worker.py.
//
//   runner PROGRAM INPUT OUTPUT THREADS SECONDS LEAST MOST WARM float32|int64 SIZE...
//
// INPUT holds the tensor's bytes; OUTPUT gets the first result's floats. Samples (wall, CPU
// nanoseconds) and the facts around them go to stdout as JSON.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace executorch::extension::threadpool {
// The wheel has this class in a library and not its header; only its address is used.
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t count);
};
ThreadPool* get_threadpool();
} // namespace executorch::extension::threadpool

namespace {

long long now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

long status(const char* name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, strlen(name), name) == 0) {
      return 1024 * atol(line.c_str() + strlen(name) + 1);
    }
  }
  return 0;
}

template <class T>
T require(executorch::runtime::Result<T> result, const char* what) {
  if (!result.ok()) {
    fprintf(stderr, "%s: error 0x%x\n", what, unsigned(result.error()));
    exit(1);
  }
  return std::move(*result);
}

} // namespace

int main(int argc, char** argv) {
  using namespace executorch::extension;
  if (argc < 11) {
    return 2;
  }
  const double seconds = atof(argv[5]);
  const size_t least = size_t(atol(argv[6])), most = size_t(atol(argv[7]));
  const int warm = atoi(argv[8]);
  const auto kind = strcmp(argv[9], "int64") == 0 ? executorch::aten::ScalarType::Long
                                                  : executorch::aten::ScalarType::Float;
  std::ifstream given(argv[2], std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(given), {}};
  std::vector<executorch::aten::SizesType> sizes;
  for (int i = 10; i < argc; ++i) {
    sizes.push_back(atoi(argv[i]));
  }
  std::ofstream("/proc/self/clear_refs") << "5"; // VmHWM begins here
  const long base = status("VmRSS:");

  const auto opened = now(CLOCK_MONOTONIC), opened_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
  threadpool::get_threadpool()->_unsafe_reset_threadpool(uint32_t(atoi(argv[4])));
  Module module(argv[1]);
  auto input = from_blob(bytes.data(), sizes, kind);
  auto result = require(module.forward(input), "the first run");
  const auto first = now(CLOCK_MONOTONIC) - opened;
  const auto first_cpu = now(CLOCK_PROCESS_CPUTIME_ID) - opened_cpu;
  const auto& tensor = result.at(0).toTensor();
  std::ofstream(argv[3], std::ios::binary)
      .write(tensor.const_data_ptr<char>(), std::streamsize(tensor.nbytes()));

  for (int i = 0; i < warm; ++i) {
    require(module.forward(input), "a run");
  }
  std::vector<long long> wall, cpu;
  const auto began = now(CLOCK_MONOTONIC);
  while (wall.size() < most &&
         (wall.size() < least || now(CLOCK_MONOTONIC) - began < seconds * 1e9)) {
    const auto at = now(CLOCK_MONOTONIC), at_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    auto again = module.forward(input);
    cpu.push_back(now(CLOCK_PROCESS_CPUTIME_ID) - at_cpu);
    wall.push_back(now(CLOCK_MONOTONIC) - at);
    require(std::move(again), "a run");
  }
  // the libraries that it is linked with were there before: both are of the model alone
  const long added = status("VmHWM:") - base;
  printf("{\"load\": null, \"load_cpu\": null, \"first\": %lld, \"first_cpu\": %lld,"
         " \"added\": %ld, \"model_added\": %ld, \"level\": null",
         first, first_cpu, added, added);
  for (const auto* list : {&wall, &cpu}) {
    printf(", \"%s\": [", list == &wall ? "wall" : "cpu");
    for (size_t i = 0; i < list->size(); ++i) {
      printf("%s%lld", i ? "," : "", (*list)[i]);
    }
    printf("]");
  }
  printf("}\n");
}
