// Writes the metrics of a run that is taken up at step FROM and goes on to step TO, for other readers:
// tools/check_readers. MORE is added to the loss, to tell one try from another.
// usage: write_metrics DIRECTORY FROM TO MORE
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "ebb/train/run/metrics_log.hpp"

namespace {

// Steps from + 1 to `to`; each value can be told from its step.
void train(const char* directory, std::int64_t from, std::int64_t to, double more) {
  ebb::train::MetricsLog log(directory, {.from_step = from});
  for (std::int64_t step = from + 1; step <= to; ++step) {
    const auto s = static_cast<double>(step);
    log.append({.step = step, .epoch = s / 50, .time = 1.76e9 + s},
               {{"loss", 1 / s + more}, {"lr", 1e-3}, {"grad, \"norm\"", s * s}});
    if (step % 10 == 0)
      log.append({.step = step, .epoch = s / 50, .time = 1.76e9 + s},
                 {{"eval/accuracy", 1 - 1 / s},
                  {"eval/bad", step == 50 ? std::numeric_limits<double>::quiet_NaN() : s}});
    if (step % 25 == 0)
      log.append_text({.step = step, .epoch = s / 50, .time = 1.76e9 + s}, "sample",
                      "Step " + std::to_string(step) + ":\nth\u00e9 end");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: write_metrics DIRECTORY FROM TO MORE\n", stderr);
    return 2;
  }
  train(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), std::atof(argv[4]));
}
