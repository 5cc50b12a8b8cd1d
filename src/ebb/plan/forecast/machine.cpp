#include "ebb/plan/forecast/machine.hpp"

#include <fmt/core.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/plan/forecast/measure.hpp"

namespace ebb::plan {
namespace {

constexpr double kUnsound = 3600;      // seconds, for which figures that are not sound will do
constexpr double kForked = 256 << 10;  // below, kernels stay in the calling thread

double age(const std::string& path) {  // seconds
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return kUnsound;
  return std::difftime(std::time(nullptr), about.st_mtime);
}

}  // namespace

std::string cache_path() {
  if (const char* named = std::getenv("EBB_MACHINE")) return std::strcmp(named, "off") ? named : "";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && *cache) return fmt::format("{}/ebb/machine-{}", cache, pool::threads());
  if (home && *home) return fmt::format("{}/.cache/ebb/machine-{}", home, pool::threads());
  return "";
}

// What a step reads was written by calls before: some of it is still near, where it is little. What
// is far by then comes from memory.
double Machine::seconds(const ops::Cost& cost, double far) const {
  const Speed& s = speed(cost.work);
  const bool small = cost.bytes + cost.flops / 16 < kForked;
  const double share = small ? 1.0 / threads : 1;  // of the threads that work on it
  const double near = cost.bytes <= cache ? s.cached : std::min(s.cached, bytes);
  const double reached = 2 / (1 / near + 1 / std::min(s.cached, bytes));
  const double computed = cost.flops / s.flops;
  const double moved = cost.bytes * ((1 - far) / reached + far / std::min(s.far, reached));
  // Products move between tiles what does not fit; all else is moved while it is computed.
  const bool tiles = cost.work == ops::Work::product;
  return seconds_per_call + (small ? 0 : seconds_per_fork) +
         (tiles ? computed + moved : std::max(computed, moved)) / share;
}

std::string to_string(const Machine& m) {
  std::string text = fmt::format(
      "ebb-machine 5\nthreads {}\nsound {:d}\nbytes {:.17g}\ncache {:.17g}\nshared_cache "
      "{:.17g}\nseconds_per_call {:.17g}\nseconds_per_fork {:.17g}\nspill_write {:.17g}\n"
      "spill_read {:.17g}\n",
      m.threads, m.sound, m.bytes, m.cache, m.shared_cache, m.seconds_per_call, m.seconds_per_fork,
      m.spill_write, m.spill_read);
  for (const Machine::Speed& s : m.speeds)
    text += fmt::format("speed {:.17g} {:.17g} {:.17g}\n", s.flops, s.cached, s.far);
  return text;
}

bool parse(const std::string& text, Machine& into) {
  Machine m;
  int at = 0, sound = 0;
  const int found =
      std::sscanf(text.c_str(),
                  "ebb-machine 5 threads %d sound %d bytes %lf cache %lf "
                  "shared_cache %lf seconds_per_call %lf seconds_per_fork %lf "
                  "spill_write %lf spill_read %lf%n",
                  &m.threads, &sound, &m.bytes, &m.cache, &m.shared_cache, &m.seconds_per_call,
                  &m.seconds_per_fork, &m.spill_write, &m.spill_read, &at);
  const auto speed = [](double x) { return x > 1e6 && x < 1e18; };
  const auto size = [](double x) { return x >= 0 && x < 1e12; };
  m.sound = sound != 0;
  bool sane = found == 9 && m.threads > 0 && speed(m.bytes) && size(m.cache) &&
              size(m.shared_cache) && m.seconds_per_call >= 0 && m.seconds_per_call < 1 &&
              m.seconds_per_fork >= 0 && m.seconds_per_fork < 1 && m.spill_write > 1e3 &&
              m.spill_read > 1e3 && m.spill_write < 1e15 && m.spill_read < 1e15;
  for (Machine::Speed& s : m.speeds) {
    if (!sane) break;
    int more = 0;
    sane = std::sscanf(text.c_str() + at, " speed %lf %lf %lf%n", &s.flops, &s.cached, &s.far,
                       &more) == 3 &&
           speed(s.flops) && speed(s.cached) && speed(s.far);
    at += more;
  }
  if (sane) into = m;
  return sane;
}

const Machine& this_machine(std::uint64_t room) {
  static std::mutex lock;
  static Machine machine;
  static int known_for = 0;
  const std::lock_guard guard(lock);
  if (known_for == pool::threads()) return machine;
  const std::string path = cache_path();
  bool known = false;
  try {
    known = !path.empty() && file_exists(path) && parse(read_file(path), machine) &&
            (machine.sound || age(path) < kUnsound);
  } catch (const Error&) {  // a cache that cannot be read is measured again
  }
  if (!known || machine.threads != pool::threads()) {
    machine = measured(room);
    if (!path.empty()) {
      try {
        make_directories(path.substr(0, path.find_last_of('/')));
        write_file(path, to_string(machine));
      } catch (const Error&) {  // nor does one that cannot be written stop anybody
      }
    }
  }
  known_for = pool::threads();
  return machine;
}

}  // namespace ebb::plan
