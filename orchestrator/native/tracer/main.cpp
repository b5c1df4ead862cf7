// The tracer: the driver, watched by the recorder. Its output is the driver's, and "trace".
#include "recorder.h"

int main(int argc, char** argv) {
  tracer::Recorder recorder;
  return driver::run(argc, argv, recorder);
}
