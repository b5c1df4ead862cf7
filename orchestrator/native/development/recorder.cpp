// See observer.h. Part of the development library, as the recorder is of a tracer.
#include "../tracer/recorder.h"

#include "../coverage/coverage.h"
#include "observer.h"

namespace {

// What watches a tracer's driver.
class Tracing : public driver::Observer {
 public:
  void before_load() override { recorder_.before_load(); }
  void loaded(lta_module* module) override {
    recorder_.loaded(module);
    coverage::observer().loaded(module);
  }
  void saw(const lta_value* value) override { recorder_.saw(value); }
  void repeating(bool on) override { recorder_.repeating(on); }
  void write(json::Writer& out) override {
    recorder_.write(out);
    coverage::observer().write(out);
  }

 private:
  tracer::Recorder recorder_;
};

} // namespace

extern "C" driver::Observer* lta_development_recorder() {
  static Tracing tracing;
  return &tracing;
}
