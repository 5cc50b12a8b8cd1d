#include "ebb/plan/machine.hpp"

#include <fmt/core.h>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/gemm.hpp"

namespace ebb::plan {
namespace {

constexpr double kCached = 1.5;        // what the cache gains, of what the parts of a step share
constexpr double kForked = 256 << 10;  // below, kernels stay in the calling thread
// What is reached on the whole, of what a small product and a copy in the cache reach.
constexpr double kProducts = 0.8, kMemory = 1.0 / 6;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fastest of many short tries: whoever else is on the machine only makes it slower.
template <class F>
double fastest(F&& once) {
  double best = 1;
  for (int tries = 0; tries < 400; ++tries) {
    const double begin = now();
    once();
    best = std::min(best, now() - begin);
  }
  return std::max(best, 1e-9);
}

std::string file_path() {
  if (const char* named = std::getenv("EBB_MACHINE")) return std::strcmp(named, "off") ? named : "";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && *cache) return fmt::format("{}/ebb/machine-{}", cache, pool::threads());
  if (home && *home) return fmt::format("{}/.cache/ebb/machine-{}", home, pool::threads());
  return "";
}

// Rounded to two digits: what is measured again tomorrow is then mostly the same.
double rounded(double x) {
  double unit = 1;
  while (x / unit >= 100) unit *= 10;
  return static_cast<double>(static_cast<std::int64_t>(x / unit + 0.5)) * unit;
}

// The median of some pieces: a disk has bursts as well as slow moments. Past the page cache where
// that can be; a file system in memory is no disk, and is not measured.
bool measure_disk(const std::string& directory, double& write, double& read) {
  constexpr std::size_t kPiece = 2 << 20;
  constexpr int kPieces = 32;
  constexpr double kLongest = 0.15;  // seconds for each way
  File file = File::temporary(directory, true);
  if (!file.direct() || file.in_memory()) return false;
  memory::Buffer held(kPiece + File::kDirectAlignment, "spill speed", Category::workspace);
  std::fill_n(held.data(), held.size(), std::byte{1});
  const auto past = reinterpret_cast<std::uintptr_t>(held.data()) % File::kDirectAlignment;
  const std::span data(held.data() + (File::kDirectAlignment - past), kPiece);
  file.reserve(kPiece * kPieces);
  int written = 0;
  const auto each = [&](int pieces, auto&& move) {
    double took[kPieces];
    int done = 0;
    for (const double begin = now(); done < pieces && now() - begin < kLongest; ++done) {
      const double start = now();
      move(static_cast<std::uint64_t>(done) * kPiece);
      took[done] = now() - start;
    }
    std::nth_element(took, took + done / 2, took + done);
    return rounded(kPiece / took[done / 2]);
  };
  write = each(kPieces, [&](std::uint64_t at) {
    file.write_at(at, data);
    ++written;
  });
  read = each(written, [&](std::uint64_t at) { file.read_at(at, data); });
  return true;
}

}  // namespace

double Machine::seconds(const ops::Cost& cost) const {
  const double speed = cost.bytes <= cache ? std::min(cached_bytes, bytes * kCached) : bytes;
  const bool small = cost.bytes + cost.flops / 16 < kForked;
  return seconds_per_call + (small ? 0 : seconds_per_fork) +
         std::max(cost.flops / flops, cost.bytes / speed);
}

// On one thread, in less than 1 MiB: it fits beside any budget, and is not disturbed by what others
// do to memory. What all threads reach, and what does not fit into the cache, follows by the usual
// factors.
Machine measured() {
  Machine m;
  m.threads = pool::threads();
  constexpr std::size_t kSize = 96;
  memory::Buffer data(512 << 10, "machine", Category::workspace);
  auto* floats = reinterpret_cast<float*>(data.data());
  std::fill_n(floats, data.size() / sizeof(float), 1.0f);
  kernels::Gemm g{};
  g.m = g.n = g.k = g.ldc = kSize;
  g.a = {floats, kernels::Storage::f32, kSize, false};
  g.b = {floats + kSize * kSize, kernels::Storage::f32, kSize, false};
  g.c = floats + 2 * kSize * kSize;
  const std::size_t bytes = kernels::gemm_scratch(g);
  memory::Buffer scratch(bytes, "machine", Category::workspace);
  const std::size_t half = data.size() / 2;
  pool::parallel_for(2, 1, [&](std::size_t begin, std::size_t) {  // inside a region kernels stay
    if (begin != 0) return;                                       // in one thread
    const double product = fastest([&] { kernels::gemm(g, {scratch.data(), bytes}); });
    m.flops = rounded(kProducts * 2.0 * kSize * kSize * kSize / product * m.threads);
    const double copy = fastest([&] { std::memcpy(data.data() + half, data.data(), half); });
    m.cached_bytes = rounded(2.0 * static_cast<double>(half) / copy * m.threads);
  });
  m.bytes = rounded(kMemory * m.cached_bytes);
  return m;
}

std::string to_string(const Machine& m) {
  return fmt::format(
      "ebb-machine 3\nthreads {}\nflops {:.17g}\nbytes {:.17g}\ncached_bytes {:.17g}\ncache "
      "{:.17g}\n"
      "seconds_per_call {:.17g}\nseconds_per_fork {:.17g}\nspill_write {:.17g}\nspill_read "
      "{:.17g}\n",
      m.threads, m.flops, m.bytes, m.cached_bytes, m.cache, m.seconds_per_call, m.seconds_per_fork,
      m.spill_write, m.spill_read);
}

bool parse(const std::string& text, Machine& into) {
  Machine m;
  const int found =
      std::sscanf(text.c_str(),
                  "ebb-machine 3 threads %d flops %lf bytes %lf cached_bytes %lf cache %lf "
                  "seconds_per_call %lf "
                  "seconds_per_fork %lf spill_write %lf spill_read %lf",
                  &m.threads, &m.flops, &m.bytes, &m.cached_bytes, &m.cache, &m.seconds_per_call,
                  &m.seconds_per_fork, &m.spill_write, &m.spill_read);
  const bool sane = found == 9 && m.threads > 0 && m.flops > 1e6 && m.flops < 1e18 &&
                    m.bytes > 1e6 && m.bytes < 1e15 && m.cached_bytes > 1e6 &&
                    m.cached_bytes < 1e15 && m.cache >= 0 && m.cache < 1e12 &&
                    m.seconds_per_call >= 0 && m.seconds_per_call < 1 &&
                    m.seconds_per_fork >= 0 && m.seconds_per_fork < 1 && m.spill_write > 1e3 &&
                    m.spill_read > 1e3 && m.spill_write < 1e15 && m.spill_read < 1e15;
  if (sane) into = m;
  return sane;
}

Machine with_spill_speed(const Machine& machine, const std::string& directory) {
  static std::mutex lock;
  static std::map<std::uint64_t, std::pair<double, double>> known;  // by device
  Machine m = machine;
  const std::string beside = file_path();
  struct stat about {};
  if (beside.empty() || stat(directory.c_str(), &about) != 0) return m;
  const std::lock_guard guard(lock);
  const auto [at, fresh] = known.try_emplace(about.st_dev, m.spill_write, m.spill_read);
  auto& [write, read] = at->second;
  if (fresh) {
    const std::string path = fmt::format("{}.disk-{:x}", beside, about.st_dev);
    double w = 0, r = 0;
    const auto sane = [&] { return w > 1e6 && w < 1e12 && r > 1e6 && r < 1e12; };
    try {
      if (file_exists(path))
        std::sscanf(read_file(path).c_str(), "ebb-disk 1 write %lf read %lf", &w, &r);
      if (!sane() && measure_disk(directory, w, r) && sane()) {
        make_directories(path.substr(0, path.find_last_of('/')));
        write_file(path, fmt::format("ebb-disk 1\nwrite {:.17g}\nread {:.17g}\n", w, r));
      }
    } catch (const Error&) {  // nothing can be written there: spilling will say so, if it is chosen
    }
    if (sane()) std::tie(write, read) = std::pair(w, r);
  }
  std::tie(m.spill_write, m.spill_read) = at->second;
  return m;
}

const Machine& this_machine() {
  static std::mutex lock;
  static Machine machine;
  static int known_for = 0;
  const std::lock_guard guard(lock);
  if (known_for == pool::threads()) return machine;
  const std::string path = file_path();
  bool known = false;
  try {
    known = !path.empty() && file_exists(path) && parse(read_file(path), machine);
  } catch (const Error&) {  // a cache that cannot be read is measured again
  }
  if (!known || machine.threads != pool::threads()) {
    machine = measured();
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
